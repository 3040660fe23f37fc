/** What is alike in stores that decide by majority: how many servers there are, which answer, and who may come in. */
import type { Check } from './setup.js'

/** @param voters those that count for a majority */
export function quorumCheck(voters: number): Check {
  const what = 'servers'
  const odd = 'three, or five, on machines of their own'
  if (voters <= 1) {
    const found = 'one server: while it is away there are no locks, and they are gone with its disk'
    return { what, verdict: 'weak', found, remedy: odd }
  }
  const spare = Math.ceil(voters / 2) - 1
  if (voters % 2 === 1)
    return { what, verdict: 'ok', found: `${voters} servers decide, ${spare} of them may be away` }
  const found = `${voters} servers decide, and no more of them may be away than of ${voters - 1}: ${spare}`
  return { what, verdict: 'weak', found, remedy: odd }
}

/** Of the servers that the URL names. */
export function answersCheck(named: readonly string[], silent: readonly string[], all: number): Check {
  const what = 'addresses'
  if (silent.length > 0) {
    const found = `no answer from ${silent.join(', ')}`
    return { what, verdict: 'weak', found, remedy: 'start it, or leave it out' }
  }
  if (named.length === 1 && all > 1) {
    const found = `one of ${all} servers is named: when it is away, so are the locks`
    return { what, verdict: 'weak', found, remedy: 'name them all, unless that is the address of a balancer' }
  }
  return { what, verdict: 'ok', found: named.length === 1 ? 'it answers' : `all ${named.length} answer` }
}

/** @param without the servers that know of no leader */
export function leaderlessCheck(without: readonly string[]): Check {
  return {
    what: 'leader',
    verdict: 'bad',
    found: `none, says ${without.join(', ')}`,
    remedy: 'a majority must be up',
  }
}

/** @param open what somebody without a login may do: anything; nothing; or that could not be told */
export function accessCheck(open: boolean | undefined, remedy: string): Check {
  const what = 'access'
  if (open === undefined) return { what, verdict: 'not checked', found: 'it could not be told' }
  if (!open) return { what, verdict: 'ok', found: 'who has no login cannot see the locks' }
  const found = 'whoever reaches it may take away and give back every lock'
  return { what, verdict: 'weak', found, remedy }
}

export function encryptionCheck(secure: boolean, secret: boolean): Check {
  const what = 'encryption'
  if (secure) return { what, verdict: 'ok', found: 'TLS' }
  if (!secret) return { what, verdict: 'ok', found: 'none, and no password to be overheard' }
  const found = 'none: whoever listens on the way has the password'
  return { what, verdict: 'weak', found, remedy: 'tls=true in the URL, and TLS on the servers' }
}

/** @param least such as 3.4 */
export function versionCheck(name: string, versions: readonly string[], least: string): Check {
  const what = 'version'
  const seen = [...new Set(versions)]
  const found = `${name} ${seen.join(', ') || 'unknown'}`
  if (seen.length === 0) return { what, verdict: 'not checked', found }
  if (seen.some((version) => compare(version, least) < 0))
    return { what, verdict: 'bad', found, remedy: `${least} or newer is needed` }
  if (seen.length === 1) return { what, verdict: 'ok', found }
  const mixed = `${found}: the servers differ`
  return { what, verdict: 'weak', found: mixed, remedy: 'finish the upgrade' }
}

function compare(a: string, b: string): number {
  const [one, other] = [a, b].map((text) => text.split('.').map((part) => Number.parseInt(part, 10) || 0))
  for (const [i, part] of (other ?? []).entries()) {
    const difference = (one?.[i] ?? 0) - part
    if (difference !== 0) return difference
  }
  return 0
}
