// The types of a browser's LockManager are not loaded here, so a separate program is compiled with them.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { root } from '../support/checkout.js'
import { leakCheck } from '../support/leaks.js'

const program = (line: string) => `
import { lockManager } from 'holdfast/web-locks'
declare const locks: Parameters<typeof lockManager>[0]
/** Written for navigator.locks. */
async function report(manager: LockManager, signal: AbortSignal): Promise<string> {
  await manager.request('a', (lock) => lock?.name)
  await manager.request('a', { ifAvailable: true }, async (lock) => (lock === null ? 1 : 2))
  await manager.request('a', { steal: true }, () => undefined)
  const { held, pending } = await manager.query()
  console.log(held?.[0]?.clientId, pending?.length)
  return manager.request('a', { mode: 'shared', signal }, async (lock) => lock?.mode ?? 'none')
}
${line}
`

test('a function written for the types of navigator.locks takes ours', () => {
  assert.equal(compile(program('void report(lockManager(locks), AbortSignal.timeout(5))')), '')
})

test('and the check would see if it did not', () => {
  assert.match(
    compile(program('void report({ request: lockManager(locks).request }, AbortSignal.timeout(5))')),
    /query/,
  )
})

function compile(text: string): string {
  mkdirSync(join(root, 'build'), { recursive: true })
  const folder = mkdtempSync(join(root, 'build/dom-'))
  try {
    writeFileSync(join(folder, 'program.ts'), text)
    const compilerOptions = {
      outDir: 'out',
      rootDir: '../..',
      noEmit: true,
      incremental: false,
      tsBuildInfoFile: null,
      declaration: false,
      declarationMap: false,
      isolatedDeclarations: false,
      lib: ['es2023', 'esnext.disposable', 'dom'],
    }
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ extends: '../../tsconfig.json', compilerOptions, include: ['*.ts'] }),
    )
    const tsc = join(root, 'node_modules/typescript/bin/tsc')
    return spawnSync(process.execPath, [tsc, '-p', folder, '--pretty', 'false'], { encoding: 'utf8' }).stdout
  } finally {
    rmSync(folder, { recursive: true })
  }
}

after(leakCheck)
