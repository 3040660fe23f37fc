// An application as a user writes it: compiled with the older decorators, started, and shut down by Nest itself.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import 'reflect-metadata'
import { Controller, ForbiddenException, Get, HttpCode, Module, UseGuards } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { memory } from 'holdfast/memory'
import { HoldfastModule, LOCKS, UseLock } from 'holdfast/nestjs'
import { root } from '../support/checkout.js'
import { leakCheck } from '../support/leaks.js'

test('the example compiles with experimentalDecorators and runs to its end on Nest', () => {
  const tsc = spawnSync(
    process.execPath,
    [join(root, 'node_modules/typescript/bin/tsc'), '-p', 'examples/nestjs'],
    {
      cwd: root,
      encoding: 'utf8',
    },
  )
  assert.equal(tsc.stdout, '')
  assert.match(outputOf('main.js'), /ten redemptions of 5 points at once: 50 left/)
  assert.match(outputOf('schedule.js'), /two hosts, one run for each second/)
})

function outputOf(example: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-nestjs-'))
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'build/nestjs', example)], {
    encoding: 'utf8',
    env: { ...process.env, TMPDIR: folder, HOLDFAST_DIR: join(folder, 'holdfast') },
    timeout: 120_000,
  })
  rmSync(folder, { recursive: true, force: true })
  assert.equal(status, 0, stdout + stderr)
  return stdout
}

test('the module is one object by Nest’s shape, global unless told otherwise', () => {
  const { module, global, exports } = HoldfastModule.forRoot({ driver: memory() })
  assert.deepEqual([module, global, exports], [HoldfastModule, true, [LOCKS]])
  assert.equal(HoldfastModule.forRoot({ driver: memory(), global: false }).global, false)
})

test('an object that Nest did not make says what is missing', async () => {
  class Alone {
    async work(): Promise<string> {
      return 'done'
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(Alone.prototype, 'work')!
  UseLock('a')(Alone.prototype, 'work', descriptor)
  Object.defineProperty(Alone.prototype, 'work', descriptor)
  await assert.rejects(
    new Alone().work(),
    /Alone has a method with @UseLock but was given no locks; import HoldfastModule/,
  )
})

test('a decorated member that is not a method is refused', () => {
  const decorator = UseLock('a') as (...args: unknown[]) => void
  assert.throws(() => decorator(class {}, 'field', undefined), /@UseLock decorates methods/)
})

test('a route keeps its path, its status and its guards when @UseLock stands above them', async () => {
  let ran = 0
  class Orders {
    async open(): Promise<string> {
      return 'open'
    }
    async guarded(): Promise<void> {
      ran++
    }
  }
  const forbid = {
    canActivate(): boolean {
      throw new ForbiddenException()
    },
  }
  decorate(Orders, 'open', UseLock('a'), Get('open'), HttpCode(202))
  decorate(Orders, 'guarded', Get('guarded'), UseLock('a'), UseGuards(forbid))
  Controller()(Orders)
  class App {}
  Module({ imports: [HoldfastModule.forRoot({ driver: memory() })], controllers: [Orders] })(App)
  const app = await NestFactory.create(App, { logger: false })
  try {
    await app.listen(0, '127.0.0.1')
    const get = (path: string) =>
      app.getUrl().then((url) => fetch(`${url}/${path}`, { headers: { connection: 'close' } }))
    const open = await get('open')
    assert.deepEqual([open.status, await open.text()], [202, 'open'])
    const guarded = await get('guarded')
    await guarded.text()
    assert.deepEqual([guarded.status, ran], [403, 0])
  } finally {
    await app.close()
  }
})

/** Decorates a method as if the decorators stood above it in this order: the last is applied first. */
function decorate(
  type: { prototype: object },
  key: string,
  // biome-ignore lint/suspicious/noExplicitAny: Nest's and ours are typed for the syntax with @
  ...decorators: ((prototype: object, key: string, descriptor: any) => void)[]
): void {
  const descriptor = Object.getOwnPropertyDescriptor(type.prototype, key)!
  for (const each of decorators.reverse()) each(type.prototype, key, descriptor)
  Object.defineProperty(type.prototype, key, descriptor)
}

after(leakCheck)
