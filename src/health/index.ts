/**
 * Health probes over HTTP: 200 while the store can grant, else 503.
 *
 * ```ts
 * import { createServer } from 'node:http'
 * import { createLocks } from 'holdfast'
 * import { healthz } from 'holdfast/health'
 * import { memory } from 'holdfast/memory'
 *
 * const server = createServer(healthz(createLocks(memory()), { timeout: '1s' }))
 * console.log(server.listening)
 * ```
 * @module
 */
export {
  type FastifyReply,
  fastifyHealthz,
  type HealthReport,
  healthReport,
  healthz,
  honoHealthz,
  type NodeResponse,
} from './healthz.js'
