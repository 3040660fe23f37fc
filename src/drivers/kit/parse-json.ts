import { NoResponseError } from './http.js'

/** Parses an answer. @throws NoResponseError when it is not of that form: a proxy may have truncated the answer, or sent its own */
export function parseJson<T>(text: string, like: (parsed: T) => boolean = () => true): T {
  let parsed: T | null = null
  let why: unknown
  try {
    parsed = JSON.parse(text) as T
  } catch (error) {
    why = error
  }
  if (typeof parsed === 'object' && parsed !== null && like(parsed)) return parsed
  throw new NoResponseError(`the answer was garbled: ${text.slice(0, 80)}`, true, why)
}
