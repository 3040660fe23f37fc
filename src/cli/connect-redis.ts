/** Opens a Redis address with whichever client is installed. */
import type { DriverFactory } from 'holdfast'
import type { RedisClient } from 'holdfast/redis'
import type { Connection } from './connect.js'
import { CliError, exits } from './exit.js'
import type { Opened, RedisAddress } from './redis-place.js'

export type Library = 'ioredis' | 'redis'

/** @param library the client to use; default: whichever is installed, ioredis first */
export async function connectRedis(address: RedisAddress, library?: Library): Promise<Connection> {
  const opened = await Promise.all(splitNodes(address).map((node) => openClient(node, library)))
  let lastError: string | undefined
  for (const { client } of opened) {
    client.on('error', (error) => {
      lastError = String((error as Error | undefined)?.message || error)
    })
  }
  const clients = opened.map(({ client }) => client)
  return {
    driver: await createDriver(address, clients),
    lastError: () => lastError,
    close: async () => void (await Promise.all(opened.map(({ close }) => close()))),
  }
}

/** Redlock uses one client per server. */
function splitNodes(address: RedisAddress): RedisAddress[] {
  return address.is === 'redlock'
    ? address.hosts.map((host) => ({ ...address, is: 'single', hosts: [host] }))
    : [address]
}

async function createDriver(
  { is, options }: RedisAddress,
  clients: readonly RedisClient[],
): Promise<DriverFactory> {
  const [client] = clients
  if (is === 'redlock') return (await import('holdfast/redlock')).redlock({ clients, ...options })
  if (client === undefined) throw new TypeError('there is no client')
  return (await import('holdfast/redis')).redis({ client, ...options })
}

async function openClient(address: RedisAddress, library: Library | undefined): Promise<Opened> {
  const makers = {
    ioredis: async () => (await import('./connect-ioredis.js')).withIoredis(address),
    redis: async () => (await import('./connect-node-redis.js')).withNodeRedis(address),
  }
  const tried = library === undefined ? (['ioredis', 'redis'] as const) : [library]
  for (const name of tried) {
    try {
      return await makers[name]()
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error
    }
  }
  throw new CliError(
    exits.unavailable,
    `a redis: URL needs a client library, and none is installed (looked for ${tried.join(' and ')}); npm install ioredis`,
  )
}
