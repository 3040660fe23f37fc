/** The clients used for all measurements, created as their users create them. */
import { Redis } from 'ioredis'
import { createClient } from 'redis'

export type NodeRedis = ReturnType<typeof createClient>

export function ioredisAt(port: number): Redis {
  return new Redis(port, '127.0.0.1')
}

export async function nodeRedisAt(port: number): Promise<NodeRedis> {
  const client: NodeRedis = createClient({ url: `redis://127.0.0.1:${port}` })
  await client.connect()
  return client
}
