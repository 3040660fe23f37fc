/**
 * Election by files, where there are no abstract names: macOS, and containers that share a volume but no name spaces.
 *
 * A socket file cannot elect by itself: it stays behind when its owner is killed, and whoever removes a stale one may
 * remove the fresh one that another process has just put there. So no name is ever used twice. A broker binds a socket
 * with a random name, listens, and then publishes it as `broker-<n+1>`, a small file that appears whole or not at all
 * and only if nobody was first. It may do that only when the broker of `broker-<n>` is over: when its process has ended, or,
 * on Linux, when the kernel refuses a connection to its socket (macOS refuses also when the backlog is full). The file
 * with the highest number is never removed, so a candidate that slept through several elections finds a higher number
 * than its own and steps back.
 */
import { randomBytes } from 'node:crypto'
import { linkSync, readdirSync, readFileSync, renameSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isOver, type ProcessMark } from './processes.js'

export interface Generation {
  /** 0: there has been no broker yet. */
  readonly number: number
  /** The socket's file name; '' when there is none or its broker has ended in good order. */
  readonly socket: string
  readonly mark: ProcessMark | undefined
}

const pattern = /^broker-(\d+)$/

export function currentGeneration(directory: string): Generation {
  for (;;) {
    let number = 0
    for (const file of readdirSync(directory)) number = Math.max(number, Number(pattern.exec(file)?.[1] ?? 0))
    if (number === 0) return { number: 0, socket: '', mark: undefined }
    try {
      const { socket, mark } = JSON.parse(readFileSync(fileOf(directory, number), 'utf8')) as Generation
      return { number, socket, mark }
    } catch (error) {
      // Removed between the two calls, because there is a higher one by now.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }
}

/**
 * May a candidate follow this one, which could not be connected to?
 * @param code of the error that `connect` gave
 */
export function hasEnded({ socket, mark }: Generation, here: ProcessMark, code: string | undefined): boolean {
  if (socket === '' || mark === undefined || isOver(mark, here)) return true
  return process.platform === 'linux' && code === 'ECONNREFUSED'
}

export function newSocketName(): string {
  return `s-${randomBytes(6).toString('hex')}`
}

/** Publishes a listening socket as the one after `last`. False: somebody else was first. */
export function publish(directory: string, last: number, socket: string, mark: ProcessMark): boolean {
  const number = last + 1
  const draft = join(directory, `draft-${socket}`)
  writeFileSync(draft, `${JSON.stringify({ socket, mark })}\n`, { flag: 'wx', mode: 0o600 })
  try {
    linkSync(draft, fileOf(directory, number))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return false
  } finally {
    unlinkSync(draft)
  }
  if (currentGeneration(directory).number === number) return true
  unlinkSync(fileOf(directory, number))
  return false
}

/** Says that this broker has ended, so that the next one need not look for its process. */
export function retire(directory: string, number: number, mark: ProcessMark): void {
  const draft = join(directory, `draft-retire-${number}`)
  writeFileSync(draft, `${JSON.stringify({ socket: '', mark })}\n`, { mode: 0o600 })
  renameSync(draft, fileOf(directory, number))
}

/** Removes what earlier brokers left. Only for the broker of `number`, which is the newest. */
export function sweep(directory: string, number: number, socket: string): void {
  for (const file of readdirSync(directory)) {
    const other = Number(pattern.exec(file)?.[1] ?? number)
    if (other < number || (file.startsWith('s-') && file !== socket)) unlinkSync(join(directory, file))
  }
}

function fileOf(directory: string, number: number): string {
  return join(directory, `broker-${number}`)
}
