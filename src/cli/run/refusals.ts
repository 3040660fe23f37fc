/**
 * Reports a store that refuses connections while it is waited for. Clients take a second or more to say so, or never do.
 */
import type { Locks } from 'holdfast'
import { type Endpoints, refusals } from '../knock.js'
import type { RunRequest } from './messages.js'
import type { SupervisorChannel } from './supervisor-channel.js'

/** How long a store may be silent before it is asked whether it accepts connections, in ms. A healthy one has answered by then. */
const silence = 200

export function reportRefusals(
  endpoints: Endpoints,
  locks: Locks,
  { names: [name = ''] }: RunRequest,
  supervisor: SupervisorChannel,
): void {
  let answered = false
  const look = async () => {
    // Without TLS: a server that accepts a connection does not refuse it.
    const refused = await refusals({ ...endpoints, tls: undefined })
    if (refused === undefined || answered) return
    const [, address = '', reason = ''] = /^(\S+) ([^,]*)/.exec(refused) ?? []
    const error = { code: 'BACKEND', message: refused, address, reason } as const
    supervisor.send({ type: 'waiting', name, blocked: {}, error, atOnce: true })
  }
  const timer = setTimeout(() => void look(), silence)
  const stop = () => {
    answered = true
    clearTimeout(timer)
  }
  locks.on('granted', stop)
  locks.on('denied', stop)
  locks.on('waiting', ({ blocked }) => blocked.error === undefined && stop())
  supervisor.cancelled.addEventListener('abort', stop)
}
