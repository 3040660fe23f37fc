/** Clients that tell the system's reason only in the text of their error. */

const reasonAt = /\b(?:connect|read|write) (E[A-Z]+)(?: (\S+):(\d+))?/

/** The system error that `text` mentions, with `code`, `address` and `port` as in Node's own errors; undefined: none. */
export function systemErrorIn(text: string, cause: unknown): Error | undefined {
  const [told, code, address, port] = reasonAt.exec(text) ?? []
  if (code === undefined) return undefined
  const at = address === undefined ? {} : { address, port: Number(port) }
  return Object.assign(new Error(told, { cause }), { code, ...at })
}
