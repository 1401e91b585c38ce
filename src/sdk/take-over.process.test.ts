import { PassThrough } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId } from '../lib/ids.ts'
import { type ApiScene, apiScene } from '../operator/operator.fixture.ts'
import { until } from '../sidecar/sidecar.fixture.ts'
import type { ApiClient } from './client.ts'
import { createClient } from './client.ts'
import { isTakeover } from './feed-job.ts'
import { attachJob, type JobEnd, runJob } from './run-job.ts'

let api: ApiScene
let sandbox: string
beforeAll(async () => {
  api = await apiScene()
  sandbox = await api.create('place')
})
afterAll(() => api[Symbol.asyncDispose]())

const CAT = { kind: 'exec' as const, argv: ['cat'], stdin: true }

/** A client that types into a job and reads its output. */
class TakeOverClient {
  readonly jobId: string
  readonly stdin = new PassThrough()
  readonly end: Promise<JobEnd | Error>
  begins: number | undefined
  screen = ''

  constructor(client: ApiClient, jobId: string, attach: boolean) {
    this.jobId = jobId
    const options = {
      jobId,
      stdin: this.stdin,
      onStdout: (chunk: Buffer) => {
        this.screen += chunk
      },
      onInput: (offset: number) => {
        this.begins = offset
      },
    }
    const running = attach
      ? attachJob(client, sandbox, options)
      : runJob(client, sandbox, { ...CAT, argv: [...CAT.argv] }, options)
    this.end = running.catch((error: Error) => error)
  }

  async types(text: string): Promise<void> {
    this.stdin.write(text)
    await until(() => this.screen.endsWith(text))
  }
}

const begin = (client = api.client) => new TakeOverClient(client, newId('job', Date.now()), false)
const attach = (to: TakeOverClient, client = api.client) => new TakeOverClient(client, to.jobId, true)

describe('with two clients that feed one job', () => {
  it('the first, though silent, gets an error at once when the second attaches, and the second continues', async () => {
    const first = begin()
    await until(() => first.begins === 0)
    const second = attach(first)
    const reported = await first.end
    expect(isTakeover(reported)).toBe(true)
    expect(reported).toMatchObject({
      code: 'conflict',
      message: `another client took over the input of ${first.jobId}`,
      hint: expect.stringContaining(`craik sandbox logs ${sandbox} --job ${first.jobId} --follow`),
      details: { taken_over: first.jobId, unsent_bytes: 0 },
    })
    expect(first.stdin.destroyed).toBe(true)
    await second.types('two')
    second.stdin.end()
    expect(await second.end).toMatchObject({ result: { exitCode: 0, stdinBytes: 3 } })
  })

  it('all that arrived before the takeover is in the output, and nothing that the first sends later', async () => {
    const first = begin()
    await first.types('one ')
    const second = attach(first)
    expect(await first.end).toMatchObject({ code: 'conflict', details: { unsent_bytes: 0 } })
    first.stdin.write('lost ')
    await second.types('two ')
    expect(second.begins).toBe(4)
    second.stdin.end('three')
    await second.end
    expect(second.screen).toBe('one two three')
  })

  it('each client in a long row takes over, and every byte arrives once', async () => {
    let last = begin()
    // Two requests at once may arrive in either order, and no client can take over a job that does not exist yet.
    await until(() => last.begins === 0)
    let expected = ''
    for (let turn = 0; turn < 10; turn++) {
      // This is written while the next client attaches. Either side may win this race, for the whole text.
      last.stdin.write(`<${turn}>`)
      const next = attach(last)
      const reported = await last.end
      expect(reported).toMatchObject({ code: 'conflict' })
      const { unsent_bytes: unsent = 0 } = (reported as { details?: { unsent_bytes?: number } }).details ?? {}
      expected += `<${turn}>`.slice(0, 3 - unsent)
      last = next
    }
    last.stdin.end('end')
    await last.end
    expect(last.screen).toBe(`${expected}end`)
  })

  it('the first does not take over again after it was disconnected while the second attached', async () => {
    using away = disconnectingClient()
    const first = begin(away.client)
    await first.types('one ')
    away.disconnect()
    const second = attach(first)
    await second.types('two ')
    first.stdin.write('lost')
    away.comeBack()
    expect(await first.end).toMatchObject({
      code: 'conflict',
      message: expect.stringContaining(`took over the input of ${first.jobId}`),
    })
    await second.types('three')
    second.stdin.end()
    await second.end
    expect(second.screen).toBe('one two three')
  })

  it('the second continues after it was disconnected, and the first does not take over again', async () => {
    using away = disconnectingClient()
    const first = begin()
    await first.types('one ')
    const second = attach(first, away.client)
    expect(await first.end).toMatchObject({ code: 'conflict' })
    await second.types('two ')
    away.disconnect()
    second.stdin.write('three ')
    away.comeBack()
    await second.types('four')
    second.stdin.end()
    await second.end
    expect(second.screen).toBe('one two three four')
  })

  it('a client whose input has ended is not interrupted', async () => {
    const first = begin()
    first.stdin.end('whole')
    await until(() => first.screen === 'whole')
    const second = attach(first)
    expect(await first.end).toMatchObject({ result: { exitCode: 0 } })
    expect(await second.end).toMatchObject({ result: { exitCode: 0 } })
  })
})

/** Creates a client whose supervisor disconnects and comes back when the test says so. */
function disconnectingClient(): Disposable & { client: ApiClient; disconnect(): void; comeBack(): void } {
  const { endpoint } = api
  let back = Promise.withResolvers<void>()
  back.resolve()
  const client = createClient({
    connect: async () => {
      await back.promise
      return endpoint
    },
  })
  return {
    client,
    disconnect() {
      back = Promise.withResolvers()
      client.link.close()
    },
    comeBack: () => back.resolve(),
    [Symbol.dispose]: () => client.close(),
  }
}
