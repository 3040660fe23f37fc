/** The routes, as a function from a web `Request` to a `Response`. */
import { cookieOf, equal, hasToken, headers, hostAllowed, sameOrigin } from './guard.js'
import type { Hub } from './hub.js'
import { pageFile } from './page-file.js'
import type { Watch } from './watch.js'
import type { Init } from './wire.js'

export interface Access {
  readonly hosts: readonly string[]
  readonly token?: string | undefined
  readonly authorize?: ((request: Request) => boolean | Promise<boolean>) | undefined
}

/** A forced release that was asked for on the page. */
export interface ForcedRelease {
  readonly store: string
  readonly name: string
  /** The reason that was given. */
  readonly why: string
  /** The tokens of the holds it was meant for. */
  readonly tokens: readonly number[]
  readonly outcome: 'free' | 'released' | 'forced'
}

export interface Site {
  readonly watches: ReadonlyMap<string, Watch>
  readonly hub: Hub
  readonly access: Access
  readonly allowRelease: boolean
  readonly onRelease: (release: ForcedRelease) => void
  readonly init: () => Init
  readonly key: string
}

const files: Readonly<Record<string, readonly [file: string, type: string]>> = {
  '': ['index.html', 'text/html; charset=utf-8'],
  'page.js': ['page.js', 'text/javascript; charset=utf-8'],
  'page.css': ['page.css', 'text/css; charset=utf-8'],
  'icon.svg': ['icon.svg', 'image/svg+xml'],
}

/**
 * @param path of the route below the page, without slashes around it
 * @param last what the address of the page ends with, if that is no slash: `locks` of `/locks`
 */
export async function respond(site: Site, request: Request, path: string, last: string): Promise<Response> {
  const { access } = site
  if (!hostAllowed(request.headers.get('host'), access.hosts))
    return text(
      403,
      'This page is not served under that host name. Start it with the name in `hosts` (holdfast ui --host-name NAME).',
    )
  const url = new URL(request.url)
  if (access.token !== undefined) {
    const given = url.searchParams.get('token')
    if (request.method === 'GET' && path === '' && given !== null && equal(given, access.token))
      return tokenPage(access.token, last)
    if (!hasToken(request, access.token))
      return text(401, 'This page needs its token. Open the address that was printed when it was started.')
  }
  if (access.authorize !== undefined && !(await access.authorize(request)))
    return text(403, 'You may not see this page.')
  if (path === 'events') return request.method === 'GET' ? events(site, url) : wrongMethod('GET')
  if (path === 'release')
    return request.method === 'POST' ? await release(site, request) : wrongMethod('POST')
  const file = Object.hasOwn(files, path) ? files[path] : undefined
  if (file === undefined) return text(404, 'There is nothing here.')
  if (request.method !== 'GET' && request.method !== 'HEAD') return wrongMethod('GET')
  const content = path === '' && last !== '' ? belowLast(pageFile(file[0]), last) : pageFile(file[0])
  return new Response(content, { headers: { ...headers, 'content-type': file[1] } })
}

/**
 * The page for an address without a slash at its end, where a browser would look for its files one level too high. They stay relative: a
 * proxy may have taken a prefix away that the browser still sees.
 */
function belowLast(page: Uint8Array, last: string): string {
  const folder = `./${last.replaceAll('&', '&amp;').replaceAll('"', '&quot;')}/`
  return Buffer.from(page)
    .toString('utf8')
    .replace(/ (href|src)="/g, (attribute) => attribute + folder)
}

/** Puts the token into a cookie and out of the address, which is kept in histories and shown on screens. */
function tokenPage(token: string, last: string): Response {
  const { name, value } = cookieOf(token)
  // Without a path and relative to the page, both also fit behind a proxy that takes a prefix away. Without a slash at the end of the
  // address the browser sends the cookie to what stands beside the page as well.
  const cookie = `${name}=${value}; HttpOnly; SameSite=Lax; Max-Age=604800`
  return new Response(null, {
    status: 303,
    headers: { ...headers, location: `./${last}`, 'set-cookie': cookie },
  })
}

function events({ hub, watches, init }: Site, url: URL): Response {
  if (hub.closed) return text(503, 'This page was closed by its server.')
  if (hub.full) return text(503, 'Too many browsers have this page open already.')
  const watch = watches.get(url.searchParams.get('store') ?? '')
  const name = url.searchParams.get('name')
  const unfollow = watch !== undefined && name !== null ? watch.follow(name) : () => undefined
  const type = { 'content-type': 'text/event-stream; charset=utf-8', 'x-accel-buffering': 'no' }
  return new Response(hub.open(init, unfollow), { headers: { ...headers, ...type } })
}

async function release(site: Site, request: Request): Promise<Response> {
  if (!site.allowRelease)
    return text(403, 'This page is read-only. Start it with allowRelease (holdfast ui --allow-release).')
  const key = request.headers.get('x-holdfast-key')
  if (!sameOrigin(request) || key === null || !equal(key, site.key))
    return text(403, 'This did not come from the page itself. Reload the page.')
  const wanted = parseReleaseRequest(await request.json().catch(() => undefined))
  if (typeof wanted === 'string') return text(400, wanted)
  const { store, name, tokens, why, grace } = wanted
  const watch = site.watches.get(store)
  if (watch === undefined) return text(404, 'There is no such store.')
  try {
    const outcome = await watch.release(name, tokens, why, grace)
    if (outcome === 'changed') return text(409, 'Another holder has it now. Nothing was released.')
    site.onRelease({ store, name, tokens, why, outcome })
    return Response.json({ outcome }, { headers })
  } catch (error) {
    return text(
      502,
      `It is not known whether the lock was released: ${String((error as Error).message ?? error)}`,
    )
  }
}

interface ReleaseRequest {
  readonly store: string
  readonly name: string
  readonly tokens: readonly number[]
  readonly why: string
  readonly grace?: number
}

/** The longest grace period, in ms, and the longest reason, in characters. */
const maxGrace = 60_000
const maxReason = 200

/** @returns what to say if it is not well formed */
function parseReleaseRequest(body: unknown): ReleaseRequest | string {
  if (typeof body !== 'object' || body === null) return 'Send JSON: store, name, tokens, why, grace.'
  const { store, name, tokens, why, grace } = body as Record<string, unknown>
  if (typeof store !== 'string' || typeof name !== 'string') return 'store and name must be texts.'
  if (!Array.isArray(tokens) || tokens.length === 0 || !tokens.every(Number.isSafeInteger))
    return 'tokens must be a list of the tokens whose holders are to lose the lock.'
  if (typeof why !== 'string' || why.trim() === '' || why.length > maxReason || /[\p{Cc}\p{Cf}]/u.test(why))
    return `why must say, in at most ${maxReason} characters, why the lock is taken.`
  if (grace !== undefined && !(typeof grace === 'number' && grace >= 0 && grace <= maxGrace))
    return `grace must be between 0 and ${maxGrace} ms.`
  return { store, name, tokens, why: why.trim(), ...(grace !== undefined && { grace }) }
}

function wrongMethod(allow: string): Response {
  return new Response(`Only ${allow} is answered here.\n`, {
    status: 405,
    headers: { ...headers, allow, 'content-type': plain },
  })
}

const plain = 'text/plain; charset=utf-8'

function text(status: number, words: string): Response {
  return new Response(`${words}\n`, { status, headers: { ...headers, 'content-type': plain } })
}
