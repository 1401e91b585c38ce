/** Tests two joined streams: data from one arrives at the other, however slowly that one reads. */
import { Duplex, duplexPair } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { joinStreams } from './stream-responses.ts'

/** Accepts one piece at a time, with a delay. */
class SlowClient extends Duplex {
  readonly taken: Buffer[] = []

  override _read(): void {
    this.push(null)
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    void sleep(20).then(() => {
      this.taken.push(chunk)
      done()
    })
  }
}

it('delivers the last bytes after the sender has closed', async () => {
  const client = new SlowClient()
  const [inside, host] = duplexPair()
  joinStreams(client, host)
  inside.end(Buffer.alloc(30_000, 'x'))
  inside.resume()
  await new Promise((done) => client.once('close', done))
  expect(Buffer.concat(client.taken)).toHaveLength(30_000)
})

it('keeps the other direction open when one side ends', async () => {
  const [client, there] = duplexPair()
  const [inside, host] = duplexPair()
  joinStreams(there, host)
  client.end('question')
  expect((await buffer(inside)).toString()).toBe('question')
  inside.end('answer')
  expect((await buffer(client)).toString()).toBe('answer')
})

it('breaks the other side when one side breaks', async () => {
  const [client, there] = duplexPair()
  const [inside, host] = duplexPair()
  joinStreams(there, host)
  client.on('error', () => {})
  inside.on('error', () => {})
  host.destroy()
  await new Promise((done) => there.once('close', done))
  expect(there.destroyed).toBe(true)
})
