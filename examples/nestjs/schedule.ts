/** Two hosts with `@nestjs/schedule`: each second one of them runs the job. And health by `@nestjs/terminus`. */
import 'reflect-metadata'
import assert from 'node:assert/strict'
import { Module } from '@nestjs/common'
import { NestFactory, Reflector } from '@nestjs/core'
import { ScheduleModule } from '@nestjs/schedule'
import { HealthCheckService, TerminusModule } from '@nestjs/terminus'
import type { Locks } from 'holdfast'
import { local } from 'holdfast/local'
import { HoldfastModule, LOCKS, locksIndicator } from 'holdfast/nestjs'
import { Reports, runs } from './reports.js'

@Module({
  imports: [
    HoldfastModule.forRootAsync({ useFactory: () => ({ driver: local() }) }),
    ScheduleModule.forRoot(),
    TerminusModule.forRoot({ logger: false }),
  ],
  providers: [Reports],
})
class App {}

const hosts = await Promise.all(
  [1, 2].map(() => NestFactory.createApplicationContext(App, { logger: ['error', 'warn'] })),
)
for (const host of hosts) await host.init()
while (runs.length < 2) await new Promise((resolve) => setTimeout(resolve, 50))

const [host] = hosts
assert.ok(host)
const locks = host.get<Locks>(LOCKS)
const check = () => host.get(HealthCheckService).check([() => locksIndicator(locks)('locks')])
assert.equal((await check()).details['locks']?.status, 'up')
assert.equal(host.get(Reflector).get('team', Reports.prototype.everySecond), 'billing')
await locks.close()
await assert.rejects(check(), /Service Unavailable/)

for (const one of hosts) await one.close()
assert.equal(new Set(runs).size, runs.length, `twice in one second: ${runs.join(', ')}`)
console.log('two hosts, one run for each second')
