// A form drawn from what a release says about its records: one row for every field.

const EMPTY = "no answer";
const OTHER = "something else";
const NUMBERS = ["number", "count"];

/** What a person reads of a value: numbers with their unit, and that there is none. */
export function words(field, value) {
  if (value === null) return EMPTY;
  if (field.kind === "flag") return value ? "yes" : "no";
  return NUMBERS.includes(field.kind) ? `${value.toFixed(field.kind === "count" ? 0 : 1)} ${field.unit}`.trimEnd() : value;
}

/** A row for every field in `home`. `record` (values by name) follows them, and `changed` is called when it did. */
export function drawForm(home, fields, record, changed) {
  fields.forEach((field, i) => {
    const row = element("div", { className: "field" });
    const name = element("label", { htmlFor: `field-${i}`, textContent: field.name });
    const set = (value) => {
      record[field.name] = value;
      changed();
    };
    const [control, ...beside] = draw(field, record[field.name], set);
    control.id = `field-${i}`;
    control.classList.add("control");
    row.append(name, control, ...beside);
    home.append(row);
  });
}

function draw(field, value, set) {
  if (NUMBERS.includes(field.kind)) return slider(field, value, set);
  if (field.kind === "date") return date(field, value, set);
  const options = field.kind === "flag" ? [true, false] : [...new Set([...field.values, OTHER])];
  return choice(options, field, value, set);
}

function slider(field, value, set) {
  const whole = field.kind === "count";
  const range = element("input", { type: "range", min: field.low, max: field.high, step: whole ? 1 : 0.1 });
  range.value = value ?? field.fill;
  const shown = element("span", { className: "value", ariaHidden: "true" });
  // The value is spoken with the slider that has the focus; a live region for each would speak over everything else.
  const show = (now) => range.setAttribute("aria-valuetext", (shown.textContent = words(field, now)));
  const given = () => Number(range.value);
  range.addEventListener("input", () => (show(given()), set(given())));
  show(value);
  return [range, shown, ...emptied(field, range, value, (now) => (show(now), set(now)), given)];
}

function date(field, value, set) {
  const day = element("input", { type: "date", min: field.low.slice(0, 10), max: field.high.slice(0, 10), value: value ?? "" });
  const given = () => day.value || null; // a date that was cleared is missing too
  day.addEventListener("input", () => set(given()));
  return [day, ...emptied(field, day, value, set, given)];
}

/** A drop-down; no answer is one of its options where it may be. */
function choice(options, field, value, set) {
  const all = field.missing ? [...options, null] : options;
  const list = element("select", {});
  list.append(...all.map((option) => element("option", { textContent: words(field, option) })));
  list.selectedIndex = all.indexOf(value);
  list.addEventListener("change", () => set(all[list.selectedIndex]));
  return [list];
}

/** A box that empties a field that may be missing, and gives it back. */
function emptied(field, control, value, set, given) {
  if (!field.missing) return [];
  const box = element("input", { type: "checkbox", checked: value === null });
  const label = element("label", { className: "empty" });
  label.append(box, ` ${EMPTY}`);
  box.setAttribute("aria-label", `${EMPTY}: ${field.name}`);
  control.disabled = box.checked;
  box.addEventListener("change", () => {
    control.disabled = box.checked;
    set(box.checked ? null : given());
  });
  return [label];
}

const element = (tag, properties) => Object.assign(document.createElement(tag), properties);
