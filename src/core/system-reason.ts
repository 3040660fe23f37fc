/** Error codes of sockets and of host lookup. */
const systemReasons = new Set(
  'ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EHOSTUNREACH EHOSTDOWN ENETUNREACH ENETDOWN ENOTFOUND EAI_AGAIN'.split(
    ' ',
  ),
)

const maxDepth = 8

/** Why the network failed, from the first system error in a chain of causes: its code, and its address if known. */
export function systemReason(error: unknown, depth = 0): { reason?: string; address?: string } {
  if (typeof error !== 'object' || error === null || depth > maxDepth) return {}
  const { code, address, hostname, port, cause, errors } = error as Record<string, unknown>
  if (typeof code === 'string' && systemReasons.has(code)) {
    const host = address ?? hostname
    return {
      reason: code,
      ...(typeof host === 'string' && { address: port === undefined ? host : `${host}:${String(port)}` }),
    }
  }
  for (const inner of [cause, ...(Array.isArray(errors) ? errors : [])]) {
    const found = systemReason(inner, depth + 1)
    if (found.reason !== undefined) return found
  }
  return {}
}
