/** Randomised response with m favoured outputs of K; the argument is in `response.py`. */
import { type Source, uniformBelow } from "./entropy.js";

export interface Response {
  size: bigint;
  favoured: number;
  a: bigint;
  b: bigint;
  /** T = m·a + (K − m)·b, the number of equally likely draws. */
  total: bigint;
}

/** A favoured output with probability a/T each, any other with b/T: exact, by rejection. */
export function respond(response: Response, chosen: (number | bigint)[], source: Source): bigint {
  const { a, b, favoured: m } = response;
  const told = BigInt(m) * (a - b);
  const u = uniformBelow(source, response.total);
  return u < told ? BigInt(chosen[Number(u / (a - b))]!) : (u - told) / b;
}
