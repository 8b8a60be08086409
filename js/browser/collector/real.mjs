export async function checkReal() {}
