/** Checks shared by majority-based stores: number of servers, which of them answer, and access. */
import { bad, type Check, ok, unchecked, weak } from './check.js'

/** @param voters servers that count for a majority */
export function quorumCheck(voters: number): Check {
  const what = 'servers'
  const odd = 'three servers, or five, on machines of their own'
  if (voters <= 1)
    return weak(
      what,
      'one server',
      'while it is down there are no locks, and they are gone with its disk',
      odd,
    )
  const spare = Math.ceil(voters / 2) - 1
  if (voters % 2 === 1) return ok(what, `${voters} servers decide, ${spare} of them may be down`)
  const found = `${voters} servers decide, ${spare} of them may be down`
  return weak(what, found, `no better than ${voters - 1}: the extra server only adds work`, odd)
}

/** For the servers named in the URL. */
export function answersCheck(named: readonly string[], silent: readonly string[], all: number): Check {
  const what = 'addresses'
  if (silent.length > 0) {
    const found = `no answer from ${silent.join(', ')}`
    return weak(what, found, 'locks work as long as a majority is up', 'start it, or leave it out of the URL')
  }
  if (named.length === 1 && all > 1) {
    const found = `one of ${all} servers is named`
    const remedy = 'name them all in the URL, unless this is the address of a balancer'
    return weak(what, found, 'while it is down there are no locks, although the others go on', remedy)
  }
  return ok(what, named.length === 1 ? 'it answers' : `all ${named.length} answer`)
}

/** @param without servers that know of no leader */
export function leaderlessCheck(without: readonly string[]): Check {
  const found = `none, according to ${without.join(', ')}`
  return bad('leader', found, 'no lock can be taken', 'start servers until a majority is up')
}

/** @param open what a client without a login may do; true: everything; false: nothing; undefined: not known */
export function accessCheck(open: boolean | undefined, remedy: string): Check {
  const what = 'access'
  if (open === undefined) return unchecked(what, 'could not tell what clients without a login may do')
  if (!open) return ok(what, 'nobody sees the locks without a login')
  const means = 'safe among well-behaved programs, but anyone who reaches the server can take every lock away'
  return weak(what, 'open without a login', means, remedy)
}

/** @param least such as 3.4 */
export function versionCheck(name: string, versions: readonly string[], least: string): Check {
  const what = 'version'
  const seen = [...new Set(versions)]
  const found = `${name} ${seen.join(', ') || 'unknown'}`
  if (seen.length === 0) return unchecked(what, found)
  if (seen.some((version) => compare(version, least) < 0))
    return bad(what, found, 'the driver needs features that this version lacks', `${name} ${least} or newer`)
  if (seen.length === 1) return ok(what, found)
  return weak(
    what,
    found,
    'the servers run different versions, a mix that is not tested',
    'finish the upgrade',
  )
}

function compare(a: string, b: string): number {
  const [one, other] = [a, b].map((text) => text.split('.').map((part) => Number.parseInt(part, 10) || 0))
  for (const [i, part] of (other ?? []).entries()) {
    const difference = (one?.[i] ?? 0) - part
    if (difference !== 0) return difference
  }
  return 0
}
