/** The result of one check of a set-up. */
export interface Check {
  readonly what: string
  /** `bad`: locks fail, or can be lost without anybody's fault. `weak`: a guarantee depends on something that may fail. */
  readonly verdict: 'ok' | 'weak' | 'bad' | 'not checked'
  readonly found: string
  /** Consequence for locks, in plain words. */
  readonly means?: string
  /** What to change: the exact setting. */
  readonly remedy?: string
}

export function ok(what: string, found: string, means?: string): Check {
  return { what, verdict: 'ok', found, ...(means !== undefined && { means }) }
}

export function weak(what: string, found: string, means: string, remedy: string): Check {
  return { what, verdict: 'weak', found, means, remedy }
}

export function bad(what: string, found: string, means: string, remedy: string): Check {
  return { what, verdict: 'bad', found, means, remedy }
}

export function unchecked(what: string, found: string, remedy?: string): Check {
  return { what, verdict: 'not checked', found, ...(remedy !== undefined && { remedy }) }
}

/**
 * Merges the checks of several servers into one list: a result shared by all appears once, any other names its server.
 * @param servers the checks of each server, by address
 */
export function merged(servers: ReadonlyMap<string, readonly Check[]>): Check[] {
  const groups = new Map<string, { readonly check: Check; readonly of: string[] }>()
  for (const [server, checks] of servers) {
    for (const check of checks) {
      const key = JSON.stringify(check)
      const group = groups.get(key)
      if (group === undefined) groups.set(key, { check, of: [server] })
      else group.of.push(server)
    }
  }
  return [...groups.values()]
    .sort((a, b) => address(servers, a.check) - address(servers, b.check))
    .map(({ check, of }) =>
      of.length === servers.size ? check : { ...check, what: `${check.what} of ${of.join(', ')}` },
    )
}

/** Position of this check on the first server that has it. */
function address(servers: ReadonlyMap<string, readonly Check[]>, { what }: Check): number {
  const at = [...servers.values()].map((checks) => checks.findIndex((check) => check.what === what))
  return Math.max(...at)
}

/** In place of a client's own words, which name neither the server nor what it was asked. @param ms how long it had */
export function noAnswer(server: string, asked: string, ms: number, cause: unknown): Error {
  return new Error(`${server} gave no answer to ${asked} within ${ms / 1_000} s`, { cause })
}
