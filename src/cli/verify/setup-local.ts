import { mkdirSync, statfsSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Check } from './setup.js'

/** Of file systems that are shared by machines, as `statfs` numbers them: NFS, SMB, CIFS, 9P, Ceph, FUSE. */
const shared: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0x01021997, '9P'],
  [0x00c36400, 'Ceph'],
  [0x65735546, 'FUSE'],
])

export async function localSetup(url: string): Promise<Check[]> {
  const given = url.slice('local:'.length).replace(/^\/\/(?=\/)/, '')
  const usual = process.env['HOLDFAST_DIR'] ?? process.env['XDG_RUNTIME_DIR'] ?? tmpdir()
  const directory = given === '' ? usual : given
  if (given !== '') mkdirSync(directory, { recursive: true, mode: 0o700 })
  const kind = shared.get(statfsSync(directory).type)
  const { mode } = statSync(directory)
  const open = given !== '' && (mode & 0o022) !== 0
  return [
    kind === undefined
      ? { what: 'file system', verdict: 'ok', found: `${directory} is on this machine` }
      : {
          what: 'file system',
          verdict: kind === 'FUSE' ? 'weak' : 'bad',
          found: `${directory} is on ${kind}, where the journal is not shared safely`,
          remedy: 'use a directory of this machine',
        },
    open
      ? {
          what: 'permissions',
          verdict: 'bad',
          found: `others may write to ${directory}`,
          remedy: 'chmod 700',
        }
      : { what: 'permissions', verdict: 'ok', found: 'the directory belongs to one user' },
    {
      what: 'processes',
      verdict: 'not checked',
      found: `containers must share ${join(directory, '…')} and see each other's process ids`,
    },
  ]
}
