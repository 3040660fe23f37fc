/**
 * The process a `holdfast hold` holds a lock for. If the lease is lost, the owner is killed with its process group, so it must lead one: a
 * group led by another process may belong to a terminal, or to a whole build.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { badInput, CliError, exits } from '../exit.js'
import { hasThreads } from '../run/group.js'
import { unlessGone } from '../run/proc.js'

export interface Owner {
  readonly pid: number
  /** Start time, as the system shows it: together with the pid it identifies one process. */
  readonly start: string
}

interface ProcessState {
  readonly group: number
  readonly start: string
  readonly ended: boolean
}

/** @throws CliError: there is no such process, or it could not be ended together with everything it started */
export function parseOwner(text: string, name: string): Owner {
  if (process.platform === 'win32')
    throw badInput('hold needs process groups, which Windows does not have; use holdfast run')
  const pid = Number(text)
  if (pid === 1) {
    throw badInput(
      `--for 1: the first process of a machine or container cannot be ended as a group; use holdfast run ${name} -- ./script.sh`,
    )
  }
  if (!/^\d+$/.test(text) || pid < 1 || pid > 2 ** 31 - 1)
    throw badInput(`--for must be the id of a process, as in --for $$, got '${text}'`)
  const shown = stateFor(pid)
  if (shown === undefined || shown.ended) throw badInput(`--for ${pid}: there is no such process`)
  checkRight(pid)
  if (shown.group !== pid) {
    throw badInput(
      `--for ${pid}: process ${shown.group} leads its process group, so it could not be ended with all it has started should the lease be lost; ` +
        `start the script with setsid, or put the lock around it: holdfast run ${name} -- ./script.sh`,
    )
  }
  return { pid, start: shown.start }
}

function checkRight(pid: number): void {
  try {
    process.kill(pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EPERM')
      throw badInput(
        `--for ${pid}: the process belongs to another user; it could not be ended should the lease be lost`,
      )
  }
}

function stateFor(pid: number): ProcessState | undefined {
  try {
    return readState(pid)
  } catch (error) {
    const why = (error as Error).message
    throw new CliError(exits.unavailable, `--for ${pid}: cannot find out whether this process runs: ${why}`)
  }
}

/** True only when it has certainly ended: if that cannot be read, as when no file descriptor is left, the lock stays held. */
export function hasEnded({ pid, start }: Owner): boolean {
  try {
    const shown = readState(pid)
    return shown === undefined || shown.ended || shown.start !== start
  } catch {
    return false
  }
}

/** @returns undefined: there is no such process @throws Error: this cannot be found out now */
function readState(pid: number): ProcessState | undefined {
  return process.platform === 'linux' ? readFromProc(pid) : readFromPs(pid)
}

function readFromProc(pid: number): ProcessState | undefined {
  const stat = unlessGone(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  if (stat === undefined) return undefined
  // After the name, which may contain spaces and brackets: state, parent, group, …, start (the 22nd field).
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state = '', , group] = fields
  return {
    group: Number(group),
    start: fields[19] ?? '',
    ended: state === 'X' || (state === 'Z' && !hasThreads(pid)),
  }
}

function readFromPs(pid: number): ProcessState | undefined {
  const { error, status, stdout } = spawnSync('ps', ['-o', 'pgid=,stat=,lstart=', '-p', `${pid}`], {
    encoding: 'utf8',
  })
  // Without a process, ps ends with 1 and prints nothing.
  if (error !== undefined || status === null) throw error ?? new Error('ps was ended')
  const [, group, state, start] = /^\s*(\d+)\s+(\S+)\s+(.+?)\s*$/.exec(stdout) ?? []
  if (status !== 0 || group === undefined || state === undefined || start === undefined) return undefined
  return { group: Number(group), start, ended: state.startsWith('Z') }
}
