import { NoAnswer } from './http.js'

/** Parses an answer. @throws NoAnswer when it is not of that form: a proxy may have truncated the answer, or sent its own */
export function jsonIn<T>(text: string, like: (said: T) => boolean = () => true): T {
  let said: T | null = null
  let why: unknown
  try {
    said = JSON.parse(text) as T
  } catch (error) {
    why = error
  }
  if (typeof said === 'object' && said !== null && like(said)) return said
  throw new NoAnswer(`the answer was garbled: ${text.slice(0, 80)}`, true, why)
}
