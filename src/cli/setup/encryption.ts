/** Can anybody between here and the store read and change the traffic? */
import { BlockList, isIP } from 'node:net'
import { acceptsAnyCertificate } from '../tls.js'
import { type Check, ok, weak } from './check.js'

export interface Way {
  /** Names or addresses, with or without a port. */
  readonly hosts: readonly string[]
  readonly secure: boolean
  /** A password or token is sent. */
  readonly secret: boolean
  /** What to write in the URL, and what to enable on the servers. */
  readonly remedy?: string
}

export function encryptionCheck({ hosts, secure, secret, remedy }: Way): Check {
  const what = 'encryption'
  if (secure && acceptsAnyCertificate())
    return weak(
      what,
      'TLS, and --insecure',
      'the certificate was not checked, so anyone on the way can answer in place of the store',
      'leave out --insecure; --ca FILE names an authority of your own',
    )
  if (secure) return ok(what, 'TLS')
  const far = hosts.filter((host) => !isLocal(host))
  if (far.length === 0) return ok(what, 'none, and none is needed: the address is on this machine')
  const reads = secret ? 'read the password and change' : 'read and change'
  return weak(
    what,
    `none on the way to ${far.join(', ')}`,
    `anyone on that network can ${reads} what is sent, including the answer that a lock is free`,
    remedy ?? '?tls=true in the URL, and TLS on the servers',
  )
}

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/** True for traffic that never leaves this machine. Other names are not resolved: their addresses may change. */
export function isLocal(address: string): boolean {
  const host = /^\[(.*)\](?::\d+)?$/.exec(address)?.[1] ?? address
  const bare = isIP(host) === 0 ? host.replace(/:\d+$/, '') : host
  const family = isIP(bare)
  if (family === 0) return /^(?:.+\.)?localhost$/i.test(bare)
  return loopback.check(bare, family === 4 ? 'ipv4' : 'ipv6')
}
