/** `lockPage(options)`: the page over one or several `Locks`, ready to be mounted in any server. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duration } from 'holdfast'
import { toMilliseconds } from 'holdfast'
import { type FastifyLike, mountOn } from './fastify.js'
import { headers, loopback } from './guard.js'
import { type Release, respond, type Site } from './handler.js'
import { Hub } from './hub.js'
import { type NodeRequest, refuse, requestOf, write } from './node.js'
import { type StoreOptions, Watch, type Watched } from './watch.js'

export interface PageOptions {
  /** What to show, by the name it gets on the page: `{ main: locks }`. */
  readonly stores: Readonly<Record<string, Watched | StoreOptions>>
  /** Where the page is mounted: `/locks`. Express and Nest say it themselves. @default '/' */
  readonly path?: string
  /** Holders can be asked to give way, and locks taken by force. @default false */
  readonly allowRelease?: boolean
  /** The host names it answers to, without ports; `*`: any, which is only safe with `authorize` or `token`. @default localhost, 127.0.0.1, [::1] */
  readonly hosts?: readonly string[]
  /** Whoever opens the page must bring it once, as `?token=…`; then a cookie stands for it. At least 16 characters. @default none is asked for */
  readonly token?: string
  /** May this request see the page? Called for each one. @default everybody who reaches it under one of `hosts` */
  readonly authorize?: (request: Request) => boolean | Promise<boolean>
  /** Shortest time between two samples of a store, in ms. @default 500 */
  readonly interval?: Duration
  /** The most commands a second that a store gets on average, however many look. @default 500 */
  readonly budget?: number
  /** Only names that begin with it. @default all */
  readonly prefix?: string
  /** How far back the timeline goes, in ms. @default 300_000 */
  readonly history?: Duration
  /** Called after each forced release, for the log. @default a process warning */
  readonly onRelease?: (release: Release) => void
}

export interface LockPage {
  /** For Express, Connect, Nest and `node:http`. Without `next`, what is not below `path` gets a 404. */
  readonly node: (request: IncomingMessage, response: ServerResponse, next?: () => void) => void
  /** For Hono and everything else that speaks `QueueEntry` and `Response`. */
  readonly fetch: (request: Request) => Promise<Response>
  /** For Fastify: `app.register(page.fastify)`. */
  readonly fastify: (app: FastifyLike) => Promise<void>
  /** How many browsers look. */
  readonly viewers: number
  /** Ends all streams and stops asking. The locks stay open. */
  close(): void
}

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

/**
 * Makes the page. Nothing is asked of a store before somebody looks, and nothing once nobody does.
 *
 * ```ts
 * import { createServer } from 'node:http'
 * import { createLocks } from 'holdfast'
 * import { local } from 'holdfast/local'
 * import { lockPage } from 'holdfast/ui'
 *
 * const page = lockPage({ stores: { main: createLocks(local()) } })
 * createServer(page.node).listen(7070, '127.0.0.1')
 * ```
 * @throws TypeError, RangeError for options that make no sense
 */
export function lockPage(options: PageOptions): LockPage {
  const { path = '/', token, authorize, allowRelease = false, hosts = loopback } = checked(options)
  const keeps = positive('history', options.history ?? 300_000)
  const pace = { interval: positive('interval', options.interval ?? 500), budget: options.budget ?? 500 }
  const key = randomBytes(16).toString('hex')
  const watches = new Map<string, Watch>()
  const all = (act: (watch: Watch) => void) => () => {
    for (const watch of watches.values()) act(watch)
  }
  const hub = new Hub(
    all((watch) => watch.start()),
    all((watch) => watch.stop()),
  )
  for (const [id, store] of Object.entries(options.stores)) {
    const given = 'locks' in store ? store : { locks: store }
    const tell = (tick: unknown) => hub.send('tick', tick)
    watches.set(
      id,
      new Watch(id, given, { ...pace, keeps, prefix: options.prefix ?? '', canRelease: allowRelease, tell }),
    )
  }
  const init = () => ({
    now: Date.now(),
    key,
    keeps,
    stores: [...watches.values()].map((watch) => watch.state()),
  })
  const onRelease = options.onRelease ?? warn
  const site: Site = { watches, hub, access: { hosts, token, authorize }, allowRelease, onRelease, init, key }
  const fetch = (request: Request, mounted = path) => routed(site, request, mounted)
  const node = (request: IncomingMessage, response: ServerResponse, next?: () => void) =>
    void answer(fetch, request, response, path, next)
  return {
    node,
    fetch: async (request) =>
      (await fetch(request)) ?? new Response('There is nothing here.\n', { status: 404, headers }),
    fastify: (app) =>
      mountOn(app, path, (request, response, base) => void answer(fetch, request, response, base)),
    get viewers() {
      return hub.size
    },
    close: () => hub.close(),
  }
}

/** @returns undefined for what is not below the page's path */
async function routed(site: Site, request: Request, mounted: string): Promise<Response | undefined> {
  const base = `/${mounted.replace(/^\/+|\/+$/g, '')}/`.replace('//', '/')
  const { pathname, search } = new URL(request.url)
  // Without the slash, the page's own files would be looked for one level too high.
  if (`${pathname}/` === base)
    return new Response(null, { status: 308, headers: { ...headers, location: `${base}${search}` } })
  if (!pathname.startsWith(base)) return undefined
  return await respond(site, request, pathname.slice(base.length), base)
}

async function answer(
  fetch: (request: Request, mounted: string) => Promise<Response | undefined>,
  request: NodeRequest & { readonly baseUrl?: string },
  response: ServerResponse,
  path: string,
  next?: () => void,
): Promise<void> {
  try {
    const found = await fetch(await requestOf(request), request.baseUrl || path)
    if (found !== undefined) return await write(found, response)
    if (next !== undefined) return next()
    refuse(response, 404, 'There is nothing here.')
  } catch (error) {
    if (response.headersSent) response.destroy()
    else if (error instanceof RangeError) refuse(response, 413, 'That is too much.')
    else refuse(response, 500, 'This could not be answered.')
  }
}

function warn({ store, name, why, outcome }: Release): void {
  process.emitWarning(
    `"${name}" of ${store} was taken from its holder on the page (${outcome}): ${why}`,
    'HoldfastWarning',
  )
}

function checked(options: PageOptions): PageOptions {
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
    const locks = 'locks' in store ? store.locks : store
    if (typeof locks?.inspect !== 'function')
      throw new TypeError(`stores.${id} must be what createLocks() returned`)
  }
  if (typeof path !== 'string' || !/^\/[^?#]*$/.test(path))
    throw new TypeError(`path must begin with a slash: '/locks', got '${path}'`)
  if (token !== undefined && (typeof token !== 'string' || token.length < 16))
    throw new RangeError('token must have at least 16 characters')
  if (hosts?.includes('*') && authorize === undefined && token === undefined)
    throw new TypeError(
      "hosts: ['*'] needs authorize or token: any site could read the page through a name of its own",
    )
  if (typeof budget !== 'number' || !(budget > 0))
    throw new RangeError(`budget must be a number of commands a second above 0, got ${budget}`)
  return options
}

function positive(name: string, value: Duration): number {
  const ms = toMilliseconds(value)
  if (ms === undefined || !(ms > 0) || ms === Number.POSITIVE_INFINITY)
    throw new RangeError(`${name} must be a duration above 0, such as 500 or '5m', got ${value}`)
  return ms
}
