/**
 * An ioredis Cluster that follows an ASK redirection sends ASKING and drops its promise. If the connection breaks before the reply,
 * nobody handles the rejection, and Node.js ends the process. Here the nodes' clients handle it themselves; who awaits ASKING still
 * receives the error.
 */
import { on } from './events.js'
import type { Full } from './ioredis.js'

interface NodeClient {
  asking?(...args: unknown[]): unknown
}

const handled = new WeakSet<object>()

/** Covers the nodes of now and those to come. Returns a function that ends the latter: a command may still be redirected after the driver closes. */
export function handleAsking(cluster: Full): () => void {
  for (const node of cluster.nodes?.('all') ?? []) handleNode(node as NodeClient)
  return on(cluster, '+node', (node) => handleNode(node as NodeClient | undefined))
}

function handleNode(node: NodeClient | undefined): void {
  if (typeof node?.asking !== 'function' || handled.has(node)) return
  handled.add(node)
  const asking = node.asking.bind(node)
  node.asking = (...args) => {
    const reply = asking(...args)
    Promise.resolve(reply).catch(() => undefined)
    return reply
  }
}
