/** `lockPage(options)`: the page over one or several `Locks`, ready to be mounted in any server. */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duration } from 'holdfast'
import { checked, positive } from './check-options.js'
import { type FastifyLike, mountOn } from './fastify.js'
import { headers, loopback } from './guard.js'
import { type ForcedRelease, respond, type Site } from './handler.js'
import { Hub } from './hub.js'
import { type NodeRequest, refuse, toRequest, write } from './node.js'
import { type StoreOptions, Watch, type WatchedLocks } from './watch.js'

export interface PageOptions {
  /** What to show, by the name it gets on the page: `{ main: locks }`. */
  readonly stores: Readonly<Record<string, WatchedLocks | StoreOptions>>
  /** Where the page is mounted: `/locks`. Express and Nest provide it themselves. @default '/' */
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
  /** The most commands per second that a store gets on average, however many browsers show the page. @default 500 */
  readonly budget?: number
  /** Only names that begin with it. @default all */
  readonly prefix?: string
  /** How far back the timeline goes, in ms. @default 300_000 */
  readonly history?: Duration
  /** Called after each forced release, for the log. @default a process warning */
  readonly onRelease?: (release: ForcedRelease) => void
}

export interface LockPage {
  /** For Express, Connect, Nest and `node:http`. Without `next`, what is not below `path` gets a 404. */
  readonly node: (request: IncomingMessage, response: ServerResponse, next?: () => void) => void
  /** For Hono and everything else that speaks `Request` and `Response`. */
  readonly fetch: (request: Request) => Promise<Response>
  /** For Fastify: `app.register(page.fastify)`. */
  readonly fastify: (app: FastifyLike) => Promise<void>
  /** How many browsers look. */
  readonly viewers: number
  /** Ends all streams, refuses new ones, and stops asking. The locks stay open. */
  close(): void
}

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
  const { path = '/', token, authorize, allowRelease = false } = checked(options)
  const hosts = (options.hosts ?? loopback).map((host) => host.toLowerCase())
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
  const { pathname } = new URL(request.url)
  // As the URL of a request spells it: `/ö` is `/%C3%B6`.
  const base = new URL(`/${mounted.replace(/^\/+|\/+$/g, '')}/`.replace('//', '/'), request.url).pathname
  if (!`${pathname}/`.startsWith(base)) return undefined
  // Some servers redirect what ends with a slash to what does not, some the other way round: both get the same, without a redirect of ours.
  const path = pathname.slice(base.length).replace(/\/$/, '')
  return await respond(site, request, path, path === '' ? pathname.replace(/^.*\//, '') : '')
}

async function answer(
  fetch: (request: Request, mounted: string) => Promise<Response | undefined>,
  request: NodeRequest & { readonly baseUrl?: string },
  response: ServerResponse,
  path: string,
  next?: () => void,
): Promise<void> {
  try {
    const found = await fetch(await toRequest(request), request.baseUrl || path)
    if (found !== undefined) return await write(found, response)
    if (next !== undefined) return next()
    refuse(response, 404, 'There is nothing here.')
  } catch (error) {
    if (response.headersSent) response.destroy()
    else if (error instanceof RangeError) refuse(response, 413, 'The body of the request is too long.')
    else refuse(response, 500, 'The server failed to answer this request.')
  }
}

function warn({ store, name, why, outcome }: ForcedRelease): void {
  process.emitWarning(
    `"${name}" of ${store} was taken from its holder on the page (${outcome}): ${why}`,
    'HoldfastWarning',
  )
}
