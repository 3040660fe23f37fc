/** Which server it is, and in which of its lives. */

/** Identifies one life of one server. */
export interface Identity {
  /** Its `run_id`: the same in all lives of one process. */
  readonly run: string
  /** Its `run_id`, and more if it was promoted. */
  readonly boot: string
  /** The server's wall clock at the start of this life, or later, in µs. */
  readonly since: number
}

/**
 * Reads the identity from INFO, with the server's time. A server that was promoted begins a new life at that moment: it has the data of
 * its former master, marker included, but may lack the newest. Its replication history is new at each promotion, and it does not say when
 * that was: `since` is now. It gives up that history after `repl-backlog-ttl` seconds without a replica; that it had a part in replication
 * still shows in its offset.
 * @throws Error when INFO lacks them
 */
export function parseIdentity(info: ReadonlyMap<string, string>): Identity & { readonly now: number } {
  const run = info.get('run_id')
  const now = Number(info.get('server_time_usec') ?? 0)
  if (run === undefined || now === 0) throw new Error('INFO does not say which server it is')
  const promoted = /[1-9a-f]/.test(info.get('master_replid2') ?? '')
  if (promoted) return { run, boot: run + (info.get('master_replid') ?? '').slice(0, 8), now, since: now }
  if (Number(info.get('master_repl_offset') ?? 0) > 0) return { run, boot: run, now, since: now }
  // Uptime is in whole seconds: up to one second may have passed before the first was counted.
  return { run, boot: run, now, since: now - Number(info.get('uptime_in_seconds') ?? 0) * 1_000_000 }
}

/** The client is wrong for Redlock, whatever the server does. Not a BackendError: `instanceof` would find every BackendError. */
export class NotIndependent extends Error {}

/**
 * A server whose data come from another one has no vote of its own: what that one is asked overwrites its votes.
 * @throws NotIndependent for a node of a Cluster, Error for a replica, which may be promoted
 */
export function refuseDependent(info: ReadonlyMap<string, string>, label: string): void {
  if (info.get('redis_mode') === 'cluster') {
    throw new NotIndependent(
      `${label} is a node of a Cluster; give redlock independent servers, or use redis() for the Cluster`,
    )
  }
  if (info.get('role') !== 'slave') return
  const master = `${info.get('master_host')}:${info.get('master_port')}`
  throw new Error(`it is a replica of ${master} and has no vote of its own; give redlock independent servers`)
}
