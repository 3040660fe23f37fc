/** Values of the environment variables of a store's tools: each that cannot be used gets an error with its name, the value and the remedy. */
import { isIP } from 'node:net'
import { badInput } from './exit.js'
import { brief, plain } from './print.js'
import { readKeys, type Tls } from './tls.js'
import { addressComplaint } from './url.js'

export type Environment = Readonly<Record<string, string | undefined>>

/** `NAME=value`, without a value that may contain a login. */
export function shownVariable(name: string, value: string): string {
  return value.includes('@') ? name : `${name}=${brief(value)}`
}

/** @throws CliError for anything but one name or address. */
export function checkHost(name: string, value: string, portName: string): void {
  if (isIP(value) !== 0 && !value.includes('%')) return
  const [, why] = hostComplaints.find(([form]) => form.test(value)) ?? []
  if (why === undefined) return
  throw badInput(
    `${shownVariable(name, value)} is not a host that holdfast can connect to: ${why.replace('PORT', portName)}`,
  )
}

/** What is wrong with a host, most specific first. */
const hostComplaints: readonly [form: RegExp, why: string][] = [
  [/^[/@]/, 'it uses TCP, and no sockets of this machine; give a name or an address'],
  [/%/, 'it takes no IPv6 address with a zone (%eth0); give a name, or an address without a zone'],
  [/^[^:,]*:\d+$|\]:\d+$/, 'it takes a name or an address alone; the port goes into PORT'],
  [/[\s,:/?#@[\]]/, 'it takes one name or address, without brackets'],
]

/** @throws CliError */
export function checkPort(name: string, value: string): void {
  if (/^\d{1,5}$/.test(value) && Number(value) >= 1 && Number(value) <= 65_535) return
  throw badInput(
    `${shownVariable(name, value)} is not the number of a port; give a whole number from 1 to 65535, or unset it`,
  )
}

/** As Consul's tools read it. Empty counts as unset. @throws CliError */
export function flagOf(name: string, value = ''): boolean {
  if (/^(1|t|true)$/i.test(value)) return true
  if (value === '' || /^(0|f|false)$/i.test(value)) return false
  throw badInput(`${shownVariable(name, value)} is neither true nor false; write one of them, or unset it`)
}

/** `secure` is undefined if no endpoint has a scheme. @throws CliError */
export function endpoints(name: string, text: string): { hosts: string; secure: boolean | undefined } {
  const refuse = (why: string) => badInput(`${shownVariable(name, text)} cannot be read: ${why}`)
  const all = text.split(',').map((one) => /^(?:(https?):\/\/)?([^\s/?#@]+)\/?$/i.exec(one.trim()))
  const schemes = new Set(all.map((one) => one?.[1]?.toLowerCase()))
  if (all.includes(null) || schemes.size > 1) {
    throw refuse(
      'holdfast takes host:port, all with http://, all with https:// or all with neither, between commas',
    )
  }
  const hosts = all.map((one) => one?.[2] ?? '')
  const [complaint] = hosts.flatMap((host) => addressComplaint(host) ?? [])
  if (complaint !== undefined) throw refuse(`it has ${complaint}`)
  const [scheme] = schemes
  return { hosts: hosts.join(','), secure: scheme === undefined ? undefined : scheme === 'https' }
}

/** The variables that name the files for TLS. */
export interface FileVariables {
  readonly ca: string
  readonly cert: string
  readonly key: string
}

/** @throws CliError for a certificate without a key, or a key without a certificate. */
export function filesFrom(env: Environment, names: FileVariables): Tls {
  const [ca, cert, key] = [env[names.ca], env[names.cert], env[names.key]]
  if (!cert !== !key) {
    const [has, lacks] = cert ? [names.cert, names.key] : [names.key, names.cert]
    throw badInput(
      `${has}=${plain(env[has] ?? '')} is set without ${lacks}; a certificate of the client needs both: set ${lacks}, or unset ${has}`,
    )
  }
  return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) }
}

/** @throws CliError, with the name of the variable, for a file that cannot be read or is not what it should be */
export function checkFiles(files: Tls, names: FileVariables): void {
  readKeys(files, (name) => `${names[name]}=${plain(files[name] ?? '')}`)
}
