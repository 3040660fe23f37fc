/**
 * A server that may evict locks in use (`maxmemory-policy allkeys-*`): a warning, or a refusal. A single server is looked at when it is met. In a Cluster
 * the script that would grant a lock looks at its node (`scripts/eviction.ts`); here the masters are only asked for the warning.
 */
import { BackendError } from '../../core/errors.js'
import type { Connection } from './client.js'
import type { Settings } from './options.js'
import { toInfo } from './reply-shapes.js'
import type { AskNode } from './scan.js'

/** Warns at most once. @returns looks at the server, or at the masters that answer. @throws BackendError when the option `eviction` refuses the server */
export function createEvictionCheck(
  connection: Connection,
  eviction: Settings['eviction'],
): () => Promise<void> {
  let warned = false
  const warn = (code: string, message: string) => {
    if (!warned) process.emitWarning(`holdfast/redis: ${message}`, { code })
    warned = true
  }
  const look = async (ask: AskNode) => {
    const info = await readInfo(ask)
    const message = info && evictionWarning(info)
    if (message !== undefined && eviction === 'refuse') {
      if (!connection.cluster) throw new BackendError('redis', message)
    } else if (info === undefined)
      warn(
        'HOLDFAST_REDIS_INFO',
        'INFO is not allowed, so it is not known whether the server may drop locks in use',
      )
    else if (message !== undefined) warn('HOLDFAST_REDIS_EVICTION', message)
  }
  return async () => {
    if (!connection.cluster) return look((...command) => connection.command(...command))
    // One that does not answer is asked again when the connection to it is back.
    const looks: Promise<void>[] = []
    for await (const ask of connection.masters()) looks.push(look(ask).catch(() => undefined))
    await Promise.all(looks)
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
async function readInfo(ask: AskNode): Promise<ReadonlyMap<string, string> | undefined> {
  try {
    return parseInfo(toInfo(await ask('INFO')))
  } catch (error) {
    if (error instanceof Error && /^(NOPERM|ERR unknown command)/.test(error.message)) return undefined
    throw error
  }
}
