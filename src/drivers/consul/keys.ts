/**
 * Names as keys. `<prefix><name>/.lock` is the lock, where `consul lock` has it, too; `<prefix><name>/.line/<attempt>` is a place in
 * line. `%` in a name is written `%25`; a name that is no clean path, such as `a//b` or `..`, has its slashes and dots written, too,
 * because an HTTP server tidies them away.
 */

export interface Line {
  readonly name: string
  readonly lock: string
  /** Every place begins with it. */
  readonly places: string
  place(attempt: string): string
  /** Where an attempt is written down that must not get a place any more. */
  over(attempt: string): string
}

export function lineOf(prefix: string, name: string): Line {
  const own = prefix + encode(name)
  return {
    name,
    lock: `${own}/.lock`,
    places: `${own}/.line/`,
    place: (attempt) => `${own}/.line/${attempt}`,
    over: (attempt) => `${prefix}%over/${attempt}`,
  }
}

export function encode(name: string): string {
  const escaped = name.replaceAll('%', '%25')
  const clean = escaped.split('/').every((part) => part !== '' && part !== '.' && part !== '..')
  return clean
    ? escaped
    : escaped.replaceAll('/', '%2F').replace(/^\.+$/, (dots) => '%2E'.repeat(dots.length))
}

/** The name that a lock or a place in line belongs to; undefined for keys that are none of ours. */
export function nameOf(prefix: string, key: string): string | undefined {
  if (!key.startsWith(prefix)) return undefined
  const [, name] = /^(.+?)\/\.(?:lock|line\/[0-9a-f]{32})$/.exec(key.slice(prefix.length)) ?? []
  // What is kept beside the locks begins with a bare percent sign, which no written name has.
  if (name === undefined || /%(?!25|2F|2E)/.test(name)) return undefined
  return name.replaceAll('%2E', '.').replaceAll('%2F', '/').replaceAll('%25', '%')
}

/** For a URL: each part by itself, because slashes are the store's, too. */
export function pathOf(key: string): string {
  return key.split('/').map(encodeURIComponent).join('/')
}
