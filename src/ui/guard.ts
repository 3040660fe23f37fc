/** Who may ask, and what a browser may do with the answer. Pure. */
import { createHash, timingSafeEqual } from 'node:crypto'

/**
 * Sent with every answer. The page runs its own script and style and nothing else, reaches only this server, and stands in no frame. With
 * Trusted Types, no text can become markup, whatever a lock is called.
 */
export const headers: Readonly<Record<string, string>> = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
  'x-frame-options': 'DENY',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cache-control': 'no-store',
}

/** The names of this machine for itself. */
export const loopback: readonly string[] = ['localhost', '127.0.0.1', '[::1]']

/**
 * Is the Host header one of `hosts`? A page of another site can point its own name at 127.0.0.1 and then counts as the same origin (DNS
 * rebinding); but it cannot change the Host header.
 */
export function hostAllowed(host: string | null, hosts: readonly string[]): boolean {
  if (host === null) return false
  return hosts.includes('*') || hosts.includes(hostname(host))
}

/** Without the port, in lower case. */
export function hostname(host: string): string {
  return host.toLowerCase().replace(/:\d+$/, '')
}

/** Does a request that changes something come from the page itself? A browser sets these headers; a script of another site cannot. */
export function sameOrigin(request: Request): boolean {
  const site = request.headers.get('sec-fetch-site')
  // A proxy in front may have rewritten Host, so that Origin does not equal it.
  if (site !== null) return site === 'same-origin'
  const origin = request.headers.get('origin')
  if (origin === null) return true
  const host = request.headers.get('host')
  return host !== null && /^https?:\/\//.test(origin) && origin.replace(/^https?:\/\//, '') === host
}

export function equal(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b))
}

const digest = (text: string) => createHash('sha256').update(text).digest()

/** The cookie that stands for a token: its name differs for each token, since cookies of a host know no port. */
export function cookieOf(token: string): { readonly name: string; readonly value: string } {
  const hash = createHash('sha256').update(`holdfast ui ${token}`).digest('hex')
  return { name: `holdfast_ui_${hash.slice(0, 8)}`, value: hash.slice(8) }
}

/** Does the request carry the token: in its cookie, or as `Authorization: Bearer`? */
export function hasToken(request: Request, token: string): boolean {
  const [, bearer] = /^Bearer (.+)$/i.exec(request.headers.get('authorization') ?? '') ?? []
  if (bearer !== undefined && equal(bearer, token)) return true
  const { name, value } = cookieOf(token)
  const cookies = (request.headers.get('cookie') ?? '').split(/; */)
  return cookies.some(
    (cookie) => cookie.startsWith(`${name}=`) && equal(cookie.slice(name.length + 1), value),
  )
}
