/**
 * A server that may evict locks in use (`maxmemory-policy allkeys-*`): a warning, or a refusal. A single server is looked at when it is met. In a Cluster
 * the script that would grant a lock looks at its node (`scripts/eviction.ts`); here one node, which the client chooses, is asked for the warning.
 */
import { BackendError } from '../../core/errors.js'
import type { Connection } from './client.js'
import type { Settings } from './options.js'
import { toInfo } from './reply-shapes.js'

/** Warns at most once. @returns looks at the server, or at one node of the Cluster. @throws BackendError when the option `eviction` refuses the server */
export function createEvictionCheck(
  connection: Connection,
  eviction: Settings['eviction'],
): () => Promise<void> {
  let warned = false
  const warn = (code: string, message: string) => {
    if (!warned) process.emitWarning(`holdfast/redis: ${message}`, { code })
    warned = true
  }
  return async () => {
    // The script looks: one node says nothing about the others.
    if (connection.cluster && eviction === 'refuse') return
    const info = await readInfo(connection)
    const message = info && evictionWarning(info)
    if (message !== undefined && eviction === 'refuse') throw new BackendError('redis', message)
    if (info === undefined)
      warn(
        'HOLDFAST_REDIS_INFO',
        'INFO is not allowed, so it is not known whether the server may drop locks in use',
      )
    else if (message !== undefined) warn('HOLDFAST_REDIS_EVICTION', message)
  }
}

/** The problem, if the server may evict locks in use; undefined if it may not. */
export function evictionWarning(info: ReadonlyMap<string, string>): string | undefined {
  const policy = info.get('maxmemory_policy') ?? ''
  if (!policy.startsWith('allkeys') || info.get('maxmemory') === '0') return undefined
  return evictionText(policy)
}

export function evictionText(policy: string): string {
  return `maxmemory-policy ${policy} lets the server drop locks in use; set noeviction or a volatile policy`
}

/** The fields of an INFO reply. */
export function parseInfo(info: string): ReadonlyMap<string, string> {
  const lines = info.split('\r\n').map((line) => line.split(':', 2))
  return new Map(lines.map(([key = '', value = '']) => [key, value]))
}

/** Undefined where it is not allowed, or does not exist. */
async function readInfo(connection: Connection): Promise<ReadonlyMap<string, string> | undefined> {
  try {
    return parseInfo(toInfo(await connection.command('INFO')))
  } catch (error) {
    if (error instanceof Error && /^(NOPERM|ERR unknown command)/.test(error.message)) return undefined
    throw error
  }
}
