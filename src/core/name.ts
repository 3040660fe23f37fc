/** Checks the names of locks. A driver encodes them; this file escapes, shortens and changes nothing. */

/** Longest name in bytes of UTF-8. */
export const maxNameBytes = 512

/**
 * @throws TypeError when the name is not a string or not well-formed Unicode; RangeError when it is empty, too long
 * or has control characters.
 */
export function checkName(name: unknown, what = 'lock name'): string {
  if (typeof name !== 'string') {
    throw new TypeError(
      `${what} must be a string, got ${describe(name)}; convert it first, for example String(id)`,
    )
  }
  if (name === '')
    throw new RangeError(`${what} must not be empty; name the thing it protects, for example 'account:42'`)
  if (Buffer.byteLength(name) > maxNameBytes) {
    throw new RangeError(
      `${what} ${quote(name)} is ${Buffer.byteLength(name)} bytes long; the limit is ${maxNameBytes}, use a hash for long keys`,
    )
  }
  for (let i = 0; i < name.length; i++) {
    const code = name.charCodeAt(i)
    if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) {
      throw new RangeError(
        `${what} ${quote(name)} has the control character U+${hex(code)} at ${i}; remove or encode it`,
      )
    }
    if (code < 0xd800 || code > 0xdfff) continue
    const next = name.charCodeAt(i + 1)
    if (code > 0xdbff || !(next >= 0xdc00 && next <= 0xdfff)) {
      throw new TypeError(
        `${what} ${quote(name)} has half a surrogate pair at ${i}; it is not well-formed Unicode`,
      )
    }
    i++
  }
  return name
}

/** @throws TypeError when it is not a function. @param call how it is called, as in `run` */
export function checkFunction(fn: unknown, call: string): void {
  if (typeof fn === 'function') return
  throw new TypeError(`${call} takes a function, as in ${call}(async (lease) => { … }), got ${describe(fn)}`)
}

/** For messages: quoted, without anything that a terminal or a log would interpret; a long name is cut. */
export function quote(text: string): string {
  return escapeControls(JSON.stringify(text.length > 80 ? `${text.slice(0, 77)}...` : text))
}

/** Longest text of another process in a message, in characters. */
const longest = 300

/** For messages: text from another process, without anything that a terminal or a log would interpret, and cut. */
export function printable(text: string): string {
  return escapeControls(text.length > longest ? `${text.slice(0, longest)}...` : text)
}

/** Control, direction and line separator characters as `\u{…}`. */
function escapeControls(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  )
}

/**
 * For messages: the value, short, and without the password of a URL. A URL is often given where options belong, and what is wrong with it may
 * be that it cannot be parsed: so everything from the first colon of the login to the last @ is left out, and the values of the query.
 */
export function describe(value: unknown): string {
  if (typeof value === 'string') return quote(withoutPassword(value))
  if (typeof value === 'function')
    return value.name === '' ? 'a function' : `the function ${quote(value.name)}`
  if (value === null || typeof value !== 'object')
    return typeof value === 'bigint' ? `${value}n` : String(value)
  return Array.isArray(value) ? 'an array' : 'an object'
}

function withoutPassword(text: string): string {
  const [scheme = ''] = /^\s*[a-z][a-z0-9+.-]*:\/\//i.exec(text) ?? []
  if (scheme === '' && !/^[^:/@\s]*:\S*@/.test(text)) return text
  const rest = text.slice(scheme.length).replace(/^([^:/@\s]*:)?.*@/s, '$1***@')
  return scheme + rest.replace(/([?&][^=&]*=)[^&]+/g, '$1***')
}

const hex = (code: number) => code.toString(16).toUpperCase().padStart(4, '0')
