/** Examines the set-up of a store within seconds, or says why it cannot. */
import type { Target } from '../connect.js'
import { CliError, exits } from '../exit.js'
import { knock, refusals, unreachable } from '../knock.js'
import { brief } from '../print.js'
import type { Check } from '../setup/check.js'
import { setupOf } from '../setup/setup.js'
import { speaksTls, whoAnswers } from '../setup/who-answers.js'
import { hostPort } from '../url.js'

/** The time limit for everything, and the silence after which to check what kind of server answers, in ms. */
const patience = 15_000
const silence = 2_000

/** @throws CliError: the URL makes no sense, or the store cannot be used */
export async function examine(url: string, store: Target): Promise<Check[]> {
  await knock(store)
  try {
    const checks = await inTime(setupOf(url), () => otherKind(schemeOf(url), store))
    const [first] = checks
    if (first !== undefined && checks.every(({ verdict }) => verdict === 'not checked'))
      throw unusable(`${first.found}${first.remedy === undefined ? '' : `: ${first.remedy}`}`, store)
    return checks
  } catch (error) {
    throw await explained(error, url, store)
  }
}

/** A server of another kind may stay silent as long as the client waits. @param other names that kind; undefined: none found */
async function inTime<T>(work: Promise<T>, other: () => Promise<string | undefined>): Promise<T> {
  const timers: NodeJS.Timeout[] = []
  const after = (ms: number, act: () => void) => void timers.push(setTimeout(act, ms))
  const late = new Promise<never>((_, reject) => {
    after(patience, () => reject(new Error(`no answer within ${patience / 1_000} s`)))
    after(silence, () => void other().then((why) => why !== undefined && reject(new Other(why))))
  })
  try {
    return await Promise.race([work, late])
  } finally {
    for (const timer of timers) clearTimeout(timer)
  }
}

/** A different kind of server answers at the address. */
class Other extends Error {}

function unusable(why: string, { shown }: Target, cause?: unknown): CliError {
  return new CliError(exits.unavailable, `${why} (${shown})`, { cause })
}

/** Finds the cause behind a client's error: no server, a wrong login, TLS, a server of another kind. */
async function explained(error: unknown, url: string, store: Target): Promise<unknown> {
  // A TypeError is a bug in this program.
  if (!(error instanceof Error) || error instanceof CliError || error instanceof TypeError) return error
  if (error instanceof Other) return unusable(error.message, store)
  const refused = await refusals(store)
  if (refused !== undefined) return unreachable(store.shown, refused, error)
  const why = brief(error.message || String((error as { code?: unknown }).code))
  const scheme = schemeOf(url)
  if (isLogin(error)) return unusable(`the login was refused: ${why}; ${howToLogIn(scheme)}`, store, error)
  const other = await otherKind(scheme, store)
  return unusable(other === undefined ? why : `${other} (the client says: ${why})`, store, error)
}

function schemeOf(url: string): string {
  return /^[^:]*/.exec(url)?.[0]?.toLowerCase() ?? ''
}

/** Error messages of Redis, PostgreSQL (SQLSTATE class 28), MySQL, etcd and Consul. */
function isLogin(error: Error): boolean {
  const { code } = error as { code?: unknown }
  if (/^28|^ER_ACCESS_DENIED/.test(String(code))) return true
  return /^(?:NOAUTH|WRONGPASS)|the (?:login|token) was refused|client password must be/.test(error.message)
}

const variables: Readonly<Record<string, string>> = {
  postgres: 'PGPASSWORD',
  postgresql: 'PGPASSWORD',
  mysql: 'MYSQL_PWD',
  etcd: 'ETCDCTL_USER and ETCDCTL_PASSWORD',
  consul: 'CONSUL_HTTP_TOKEN',
}

function howToLogIn(scheme: string): string {
  const form = scheme === 'consul' ? ':token@' : 'user:password@'
  return `give ${form} before the host, or ${variables[scheme] ?? 'REDISCLI_AUTH'}`
}

/** What is at the address, if not what the URL says; undefined: not known, or as the URL says. */
async function otherKind(scheme: string, { hosts, tls }: Target): Promise<string | undefined> {
  const [host] = hosts
  if (host === undefined) return undefined
  const at = hostPort(host)
  const kind = await whoAnswers(host)
  if (kind === undefined) {
    const hint = `${at} speaks TLS: add ?tls=true, and ca=FILE for an authority of your own`
    return tls === undefined && (await speaksTls(host)) ? hint : undefined
  }
  if (tls !== undefined)
    return `${at} answers without TLS: ${scheme === 'rediss' ? 'write redis:// instead of rediss://' : 'leave out ?tls=true, and ca, cert and key'}`
  if (familyOf(kind.scheme) === familyOf(`${scheme}:`)) return undefined
  return `${at} is ${kind.name}: write ${kind.scheme}// instead of ${scheme}://`
}

/** Groups schemes with the same protocol. A Sentinel is not a data server. */
function familyOf(scheme: string): string {
  if (scheme === 'postgresql:') return 'postgres:'
  return ['rediss:', 'redis+cluster:', 'redlock:'].includes(scheme) ? 'redis:' : scheme
}
