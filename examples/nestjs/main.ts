/** A NestJS application whose methods run under locks. Compiled on its own: `npx tsc -p examples/nestjs`. */
import 'reflect-metadata'
import assert from 'node:assert/strict'
import { Module } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import type { Locks } from 'holdfast'
import { local } from 'holdfast/local'
import { HoldfastModule, LOCKS } from 'holdfast/nestjs'
import { Accounts } from './accounts.js'

@Module({
  imports: [
    HoldfastModule.forRootAsync({
      useFactory: async () => ({ driver: local(), defaults: { wait: 10_000 } }),
    }),
  ],
  providers: [Accounts],
})
class App {}

const app = await NestFactory.createApplicationContext(App, { logger: ['error', 'warn'] })
const accounts = app.get(Accounts)

await Promise.all(Array.from({ length: 10 }, () => accounts.redeem(42, 5)))
assert.equal(accounts.balances.get(42), 50)
assert.deepEqual(
  accounts.tokens,
  [...accounts.tokens].sort((a, b) => a - b),
)

const reports = await Promise.all([accounts.report(), accounts.report(), accounts.report()])
assert.deepEqual(reports, ['written', undefined, undefined])
assert.equal(await accounts.whoHolds(42), 0)

const locks = app.get<Locks>(LOCKS)
await app.close()
await assert.rejects(locks.inspect('account:42'), { code: 'CLOSED' })
console.log(`ten redemptions of 5 points at once: ${accounts.balances.get(42)} left`)
