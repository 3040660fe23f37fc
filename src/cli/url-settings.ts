/** The settings after the `?` of a store's URL: each has a parser, and says in words what it accepts. */
import { badInput } from './exit.js'

export interface UrlSetting<V> {
  /** As in `create=7; it is true or false`. */
  readonly accepts: string
  /** `undefined`: the text is not accepted. */
  parse(text: string): V | undefined
}

/** One for each option of the driver that a URL may contain. */
export type UrlSettings<O> = { readonly [K in keyof O]-?: UrlSetting<Exclude<O[K], undefined>> }

export const flag: UrlSetting<boolean> = {
  accepts: 'true or false',
  parse: (text) => (text === 'true' ? true : text === 'false' ? false : undefined),
}

export function oneOf<const V extends string>(...values: readonly V[]): UrlSetting<V> {
  return {
    accepts: values.join(' or '),
    parse: (text) => values.find((value) => value === text),
  }
}

/** @param accepts in words, what `pattern` matches */
export function matching(pattern: RegExp, accepts: string): UrlSetting<string> {
  return { accepts, parse: (text) => (pattern.test(text) ? text : undefined) }
}

/** A whole number in decimal digits. */
export function whole(least: number, most: number): UrlSetting<number> {
  return {
    accepts: `a whole number from ${least} to ${most}`,
    parse: (text) => {
      const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
      return value >= least && value <= most ? value : undefined
    },
  }
}

/** @throws CliError; `shown` is the URL without its password */
export function parseOptions<O extends object>(
  settings: UrlSettings<O>,
  query: ReadonlyMap<string, string>,
  shown: string,
): Partial<O> {
  const found: Partial<O> = {}
  for (const key of Object.keys(settings) as (keyof O & string)[]) {
    const text = query.get(key)
    if (text === undefined) continue
    const value = settings[key].parse(text)
    if (value === undefined) throw badInput(`'${shown}' has ${key}=${text}; it is ${settings[key].accepts}`)
    found[key] = value
  }
  return found
}
