/** The embedded driver: location, owner and free space of its directory. Reads only: a missing directory is not created. */
import { type Stats, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { localDirectory } from '../local-directory.js'
import { bad, type Check, ok, unchecked, weak } from './check.js'

/** File systems shared between machines, by `statfs` type: NFS, SMB, CIFS, 9P, Ceph, FUSE. */
const shared: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0x01021997, '9P'],
  [0x00c36400, 'Ceph'],
  [0x65735546, 'FUSE'],
])

export async function localSetup(url: string): Promise<Check[]> {
  const directory = localDirectory(url.slice('local:'.length))
  const there = statSync(directory, { throwIfNoEntry: false })
  const nearest = there === undefined ? existingParent(directory) : directory
  return [
    fileSystem(directory, nearest),
    there === undefined
      ? ok('permissions', `${directory} is made at the first use, for you alone`)
      : permissions(directory, there),
    room(nearest),
    ...containers(),
  ]
}

/** From this container, process ids of another cannot be checked, and its broker's abstract socket name cannot be reached. */
function containers(): Check[] {
  const files = ['/.dockerenv', '/run/.containerenv']
  const inside = files.some((file) => statSync(file, { throwIfNoEntry: false }) !== undefined)
  if (!inside && process.env['KUBERNETES_SERVICE_HOST'] === undefined) return []
  const found = 'this is a container: others share its locks only if they share the directory'
  const remedy =
    'a volume for the directory, and one pid name space; else a crashed holder blocks for its ttl'
  return [unchecked('containers', found, remedy)]
}

function existingParent(directory: string): string {
  const parent = dirname(directory)
  return parent === directory || statSync(parent, { throwIfNoEntry: false }) !== undefined
    ? parent
    : existingParent(parent)
}

function fileSystem(directory: string, nearest: string): Check {
  const what = 'file system'
  const kind = shared.get(statfsSync(nearest).type)
  if (kind === undefined)
    return ok(what, `${directory} is on this machine; processes of other machines do not see its locks`)
  const found = `${directory} is on ${kind}`
  const remedy = 'a directory of this machine, or a driver for many machines (holdfast advise)'
  if (kind === 'FUSE')
    return weak(what, found, 'if other machines share it, two processes can hold one lock', remedy)
  return bad(what, found, 'machines do not share the journal safely: two processes can hold one lock', remedy)
}

/** As in the driver: Windows has neither owners nor modes. */
function permissions(directory: string, found: Stats): Check {
  const what = 'permissions'
  const { mode, uid } = found
  const me = process.getuid?.()
  const refused = 'the driver refuses it: no lock can be taken'
  const other = 'HOLDFAST_DIR, or local: with a directory of your own'
  if (!found.isDirectory()) return bad(what, `${directory} is not a directory`, refused, other)
  if (me !== undefined && uid !== me)
    return bad(what, `${directory} belongs to uid ${uid}, and you are ${me}`, refused, other)
  if (me !== undefined && (mode & 0o022) !== 0)
    return bad(what, `others may write to ${directory}`, refused, `chmod 700 ${directory}`)
  return ok(what, 'the directory belongs to one user')
}

/** Below this free space, in bytes, a busy journal soon fills the disk. */
const little = 10 * 1_048_576

function room(directory: string): Check {
  const what = 'room'
  const { bavail, bsize } = statfsSync(directory)
  const left = bavail * bsize
  const found = `${Math.floor(left / 1_048_576)} MiB are free`
  if (left > little) return ok(what, found)
  return weak(what, found, 'safe; when the disk is full, no lock can be taken', `make room at ${directory}`)
}
