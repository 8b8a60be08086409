// Elements from data, and a page that changes only where the data did. Data becomes text and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. `attributes` without a value (undefined, null, false) are left out, `true` is an empty one. */
export function el(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for an element of a picture. */
export function svg(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "width%")
      element.style.width = `${value}%`; // the page's policy takes no style from an attribute
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/**
 * Makes `children` the content of `parent`. What is there already and the same stays: focus, selected text, open details
 * and scroll positions outlast an update, and bars move from where they were.
 */
export function show(parent, ...children) {
  const fresh = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  fresh.forEach((child, place) => {
    const node = typeof child === "object" ? child : document.createTextNode(child);
    const old = parent.childNodes[place];
    if (old === undefined) parent.append(node);
    else if (alike(old, node)) change(old, node);
    else parent.replaceChild(node, old);
  });
  while (parent.childNodes.length > fresh.length) parent.lastChild.remove();
}

function alike(old, fresh) {
  if (old.nodeName !== fresh.nodeName) return false;
  return old.nodeType !== Node.ELEMENT_NODE || old.getAttribute("data-key") === fresh.getAttribute("data-key");
}

function change(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  const kept = old.nodeName === "DETAILS" ? ["open", "style"] : ["style"];
  for (const name of old.getAttributeNames()) if (!kept.includes(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const name of fresh.getAttributeNames()) {
    const value = fresh.getAttribute(name);
    if (!kept.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  show(old, ...fresh.childNodes);
}
