/**
 * Spin as a function: a model and its defines in, a verdict out.
 *
 * Spin writes the model as a C program, the C compiler builds it, and the program walks through every state that can be
 * reached. It is asked either for `safety`, which is the model's assertions and that nobody is stuck, or for one of its
 * temporal formulas by name, under weak fairness. A walk that ends early (memory, depth, time) is no verdict at all.
 */
import { spawn } from 'node:child_process'
import { copyFile, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Failure, run } from './processes.js'
import { parseTrail, parseVerdict } from './spin-output.js'

export interface Question {
  /** The file of the model. */
  readonly file: string
  /** `NAME` or `NAME=value`. */
  readonly defines: readonly string[]
  /** `safety`, or the name of the temporal formula. */
  readonly asks: string
  /** About how many states there are: decides which compiler builds it. */
  readonly states: number
  /** Look for the shortest way to an error, which costs more. For walks that are to find one. */
  readonly shortest: boolean
}

/** Of one walk. */
export interface Bounds {
  /** Mebibytes. */
  readonly memory: number
  /** Milliseconds. */
  readonly time: number
  /** Ends it, with an error. */
  readonly signal?: AbortSignal
}

export interface Answer {
  /** `holds`, the property that is broken, `deadlock`, or `unfinished: ` and why. */
  readonly verdict: string
  readonly states: number
  /** Of the walk alone. */
  readonly seconds: number
  readonly megabytes: number
  /** What happened on the way to the error, one event a line. */
  readonly story: readonly string[]
}

export interface Tools {
  readonly spin: string
  readonly compiler: string
  /** Another one and its first arguments, that builds in no time what then walks at half the speed; where it works. */
  readonly quick?: readonly [string, ...string[]]
}

const checkout = fileURLToPath(new URL('../../..', import.meta.url))

/**
 * Finds the compiler and Spin, which is unpacked into the cache of test servers if it is not there.
 *
 * @throws Error with what is missing and what to do
 */
export async function findTools(): Promise<Tools> {
  const compiler = await findCompiler()
  const cache = process.env.HOLDFAST_SERVERS ?? join(checkout, '.servers')
  const fetched = (name: string) =>
    run(join(checkout, 'scripts/servers/fetch.sh'), [name], { environment: { HOLDFAST_SERVERS: cache } })
  await fetched('spin').catch((error) => {
    throw new Error(`Spin is missing and could not be fetched\n${error.message}`, { cause: error })
  })
  const spin = join(cache, 'spin/usr/bin/spin')
  // Without it everything works as well, and takes longer: it may not find the C library of this machine.
  const quick = await fetched('tcc').then(
    () => findQuick(join(cache, 'tcc/usr')),
    () => undefined,
  )
  return { spin, compiler, ...(quick !== undefined && { quick }) }
}

/** tcc, if it can build a program here. */
async function findQuick(root: string): Promise<Tools['quick']> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-tcc-'))
  try {
    const [machine = ''] = (await readdir(join(root, 'lib'))).filter((name) => name.endsWith('-linux-gnu'))
    const quick = [join(root, 'bin/tcc'), `-B${join(root, 'lib', machine, 'tcc')}`] as const
    await writeFile(join(folder, 'try.c'), '#include <stdio.h>\nint main() { return puts("built") < 0; }\n')
    const [program, ...first] = quick
    await run(program, [...first, '-o', 'try', 'try.c'], { folder })
    return (await run(join(folder, 'try'), [], { folder })) === 'built\n' ? [...quick] : undefined
  } catch {
    return undefined
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function findCompiler(): Promise<string> {
  const { CC } = process.env
  for (const name of CC ? [CC] : ['gcc', 'cc']) {
    if (await starts(name)) return name
  }
  throw new Error(
    `${CC ? `the C compiler CC=${CC} does not start` : 'this machine has no C compiler (neither gcc nor cc)'}: Spin turns ` +
      `each model into a C program. Install one (Debian: apt-get install gcc libc6-dev) or name it in CC. ` +
      `Looked in PATH, which has ${(process.env.PATH ?? '').split(delimiter).length} folders.`,
  )
}

function starts(program: string): Promise<boolean> {
  return new Promise((resolve) => {
    spawn(program, ['--version'], { stdio: 'ignore' })
      .on('error', () => resolve(false))
      .on('close', (code) => resolve(code === 0))
  })
}

/** Walks through the model. @throws Error when Spin or the compiler refuse it */
export async function check(question: Question, bounds: Bounds, tools: Tools): Promise<Answer> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-model-'))
  try {
    await build(question, bounds, tools, folder)
    return await walk(question, bounds, folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function build(question: Question, bounds: Bounds, tools: Tools, folder: string): Promise<void> {
  const { file, asks, states, shortest } = question
  const defines = question.defines.map((define) => `-D${define}`)
  // Its program finds the way to an error again only by a name without a folder.
  await copyFile(file, join(folder, basename(file)))
  const { memory, signal } = bounds
  const preprocessor = `-P${tools.compiler} -std=gnu99 -E -x c`
  await run(tools.spin, [preprocessor, ...defines, '-a', basename(file)], { folder, signal })
  const flags = [`-DMEMLIM=${memory}`, '-DVECTORSZ=1024']
  // Half the memory, a third more time.
  if (states > 8_000_000) flags.push('-DCOLLAPSE')
  if (asks === 'safety') flags.push('-DSAFETY', '-DNOCLAIM', ...(shortest ? ['-DBFS'] : []))
  else flags.push('-DNFAIR=3', ...(shortest ? ['-DREACH'] : []))
  const [compiler, ...effort] = buildCommand(tools, states)
  await run(compiler, [...effort, '-w', ...flags, '-o', 'pan', 'pan.c'], { folder, signal })
}

/**
 * The compiler and how hard it is to try, for a walk through so many states: it takes a second to build the program without
 * any effort, four to eleven with some, and a walk of a hundred thousand states takes half a second at most.
 */
function buildCommand({ compiler, quick }: Tools, states: number): readonly [string, ...string[]] {
  if (states >= 1_500_000) return [compiler, '-O2']
  return quick ?? [compiler, '-O0']
}

async function walk({ asks, shortest }: Question, { time, signal }: Bounds, folder: string): Promise<Answer> {
  const pan = join(folder, 'pan')
  // -Q ends it after so many minutes even if nobody is left who could.
  const options = ['-m20000', '-w20', '-n', `-Q${Math.ceil(time / 60_000) + 1}`]
  if (asks !== 'safety') options.push('-a', '-f', ...(shortest ? ['-i'] : []))
  const began = performance.now()
  const output = await run(pan, options, { folder, timeout: time, signal }).catch((error: unknown) => {
    if (!(error instanceof Failure)) throw error
    return error.late ? `pan: no end after ${time / 1000} s` : error.message
  })
  const told = parseVerdict(output, asks)
  const story = told.broken
    ? parseTrail(await run(pan, ['-w10', '-S'], { folder, signal }).catch(String))
    : []
  return { ...told, seconds: (performance.now() - began) / 1000, story }
}
