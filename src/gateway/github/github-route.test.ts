import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it } from 'vitest'
import { inProcessStore } from '../../../test/in-process-store.ts'
import { CraikError } from '../../errors.ts'
import { systemClock } from '../../lib/clock.ts'
import { MemoryBroker } from '../gateway.fixture.ts'
import { githubRoute } from './github-route.ts'

it('refuses a request and names the file while config/accounts.yaml is invalid', async () => {
  const store = inProcessStore(systemClock)
  const broker = new MemoryBroker()
  broker.accounts = async () => {
    throw new CraikError('invalid_config', 'config/accounts.yaml: github.base_url: https://hidden.example', {
      details: { file: 'config/accounts.yaml' },
    })
  }
  const route = githubRoute({ store, log: store.log, clock: systemClock, broker })
  const server = createServer((request, response) => void route.handle({} as never, request, response))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const answer = await fetch(`http://127.0.0.1:${port}/git/github.com/a/b.git/info/refs`)
  expect(answer.status).toBe(500)
  const text = await answer.text()
  expect(text).toContain('config/accounts.yaml')
  expect(text).not.toContain('hidden')
  server.close()
  await route.close()
})
