/** Refuses options of `lockPage` that make no sense. */
import { type Duration, toMilliseconds } from 'holdfast'
import { hostname } from './guard.js'
import type { PageOptions } from './lock-page.js'

const known = [
  'stores',
  'path',
  'allowRelease',
  'hosts',
  'token',
  'authorize',
  'interval',
  'budget',
  'prefix',
  'history',
  'onRelease',
]

/** @throws TypeError, RangeError */
export function checked(options: PageOptions): PageOptions {
  const given = options as PageOptions | undefined
  if (typeof given !== 'object' || given === null)
    throw new TypeError('lockPage() takes options: { stores: { main: locks } }')
  const unknown = Object.keys(options).find((name) => !known.includes(name))
  if (unknown !== undefined)
    throw new TypeError(`lockPage() has no option '${unknown}'; it has ${known.join(', ')}`)
  const { stores, path = '/', token, hosts, authorize, budget = 1 } = options
  if (typeof stores !== 'object' || stores === null || Object.keys(stores).length === 0)
    throw new TypeError('stores must name at least one store: { main: locks }')
  for (const [id, store] of Object.entries(stores)) {
    const described = store !== null && typeof store === 'object' && 'locks' in store
    const locks = described ? store.locks : store
    if (typeof locks?.inspect !== 'function')
      throw new TypeError(
        `stores.${id}${described ? '.locks' : ''} must be what createLocks() returned, got '${locks}'`,
      )
    if (!described) continue
    if (store.description !== undefined && typeof store.description !== 'string')
      throw new TypeError(`stores.${id}.description must be a text, got '${store.description}'`)
    if (store.doctor !== undefined && typeof store.doctor !== 'function')
      throw new TypeError(`stores.${id}.doctor must be a function, got '${store.doctor}'`)
  }
  if (typeof path !== 'string' || !/^\/[^?#]*$/.test(path))
    throw new TypeError(`path must begin with a slash: '/locks', got '${path}'`)
  if (token !== undefined && (typeof token !== 'string' || token.length < 16))
    throw new RangeError('token must have at least 16 characters')
  checkHosts(hosts)
  checkKinds(options)
  if (hosts?.includes('*') && authorize === undefined && token === undefined)
    throw new TypeError(
      "hosts: ['*'] needs authorize or token: any site could read the page through a name of its own",
    )
  if (typeof budget !== 'number' || !(budget > 0))
    throw new RangeError(`budget must be a number of commands a second above 0, got ${budget}`)
  return options
}

/** A text instead of a list would be searched for a part of it. */
function checkHosts(hosts: unknown): void {
  if (hosts === undefined) return
  if (!Array.isArray(hosts) || hosts.length === 0 || !hosts.every((host) => typeof host === 'string'))
    throw new TypeError("hosts must be a list of host names: ['ops.example.com']")
  const wrong = hosts.find((host) => hostname(host) !== host.toLowerCase() || /[/\s]/.test(host))
  if (wrong !== undefined)
    throw new TypeError(`hosts must be host names without a port and without a path, got '${wrong}'`)
}

function checkKinds({ allowRelease, authorize, onRelease, prefix }: PageOptions): void {
  if (allowRelease !== undefined && typeof allowRelease !== 'boolean')
    throw new TypeError(`allowRelease must be true or false, got '${allowRelease}'`)
  for (const [name, value] of Object.entries({ authorize, onRelease }))
    if (value !== undefined && typeof value !== 'function')
      throw new TypeError(`${name} must be a function, got '${value}'`)
  if (prefix !== undefined && typeof prefix !== 'string')
    throw new TypeError(`prefix must be a text, got '${prefix}'`)
}

/** @returns ms. @throws RangeError */
export function positive(name: string, value: Duration): number {
  const ms = toMilliseconds(value)
  if (ms === undefined || !(ms > 0) || ms === Number.POSITIVE_INFINITY)
    throw new RangeError(`${name} must be a duration above 0, such as 500 or '5m', got ${value}`)
  return ms
}
