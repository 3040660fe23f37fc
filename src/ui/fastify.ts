/** The page as a plugin of Fastify, by Fastify's shape: nothing of it is loaded. */
import type { IncomingMessage, ServerResponse } from 'node:http'

interface Request {
  readonly raw: IncomingMessage
}
interface Reply {
  readonly raw: ServerResponse
  hijack(): unknown
}
type Handler = (request: Request, reply: Reply) => void

/** As much of a `FastifyInstance` as the plugin uses. */
export interface FastifyLike {
  readonly prefix: string
  // biome-ignore lint/suspicious/noExplicitAny: Fastify's own types depend on the server, the schema compiler and the logger
  all(path: string, handler: any): unknown
  removeAllContentTypeParsers(): unknown
  // biome-ignore lint/suspicious/noExplicitAny: as above
  addContentTypeParser(type: string, parser: any): unknown
}

/** @param path where the plugin was registered without a prefix */
export async function mountOn(
  app: FastifyLike,
  path: string,
  node: (request: IncomingMessage, response: ServerResponse, base: string) => void,
): Promise<void> {
  // The page reads bodies itself. Fastify keeps this to the plugin.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request: unknown, _body: unknown, done: (error: null) => void) =>
    done(null),
  )
  const prefixed = app.prefix !== '' && app.prefix !== '/'
  const base = (prefixed ? app.prefix : path).replace(/\/$/, '')
  const handle: Handler = (request, reply) => {
    reply.hijack()
    node(request.raw, reply.raw, base)
  }
  const below = prefixed ? '' : base
  app.all(`${below}/`, handle)
  if (below !== '') app.all(below, handle)
  app.all(`${below}/*`, handle)
}
