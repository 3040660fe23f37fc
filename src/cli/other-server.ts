/**
 * Does a server of another kind answer at the address of a URL? Its silence, or a reply in another protocol, keeps most clients busy until
 * their time limits end, so it is looked for as soon as a store has been silent for a moment.
 */
import type { StoreTarget } from './connect.js'
import { hostPort } from './url.js'

/** The silence after which to look for a server of another kind, in ms. */
const silenceTimeout = 500

/** A server of another kind answers. The message says which, and what to write. */
export class OtherServer extends Error {
  override readonly name = 'OtherServer'
}

/**
 * The work, or the error that a server of another kind has replied, whichever comes first. After that error the caller need not wait for the client:
 * it never reached a store.
 *
 * @param answered aborts when the store is known to have answered; default: when the work ends
 */
export async function orOtherServer<T>(
  store: StoreTarget,
  work: Promise<T>,
  answered: AbortSignal = new AbortController().signal,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const other = new Promise<never>((_, reject) => {
    const look = async () => {
      if (answered.aborted) return
      const found = await otherServer(store).catch(() => undefined)
      if (found !== undefined && !answered.aborted) reject(new OtherServer(found))
    }
    timer = setTimeout(() => void look(), silenceTimeout)
  })
  try {
    return await Promise.race([work, other])
  } finally {
    clearTimeout(timer)
  }
}

/** What is at the address, if not what the URL says; undefined: not known, or as the URL says. */
export async function otherServer({ url, hosts, tls }: StoreTarget): Promise<string | undefined> {
  const [host] = hosts
  if (host === undefined) return undefined
  const { speaksTls, identifyServer } = await import('./setup/who-answers.js')
  const [scheme, at] = [parseScheme(url), hostPort(host)]
  const kind = await identifyServer(host, scheme)
  if (kind === undefined) {
    const hint = `${at} speaks TLS: add ?tls=true, and ca=FILE for an authority of your own`
    return tls === undefined && (await speaksTls(host)) ? hint : undefined
  }
  if (tls !== undefined) return withoutTls(at, scheme)
  if (kind.schemes.includes(scheme)) return undefined
  return `${at} is ${kind.name}: write ${kind.schemes[0]}:// instead of ${scheme}://`
}

/** The URL asks for TLS, and the server has none. @param at its host and port */
export function withoutTls(at: string, scheme: string): string {
  const remedy =
    scheme === 'rediss' ? 'write redis:// instead of rediss://' : 'leave out ?tls=true, and ca, cert and key'
  return `${at} answers without TLS: ${remedy}`
}

export function parseScheme(url: string): string {
  return /^[^:]*/.exec(url)?.[0]?.toLowerCase() ?? ''
}
