import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { writeTo } from './write-output.ts'

describe('writing to a stream', () => {
  it('settles when the chunk was accepted, and leaves no listener behind', async () => {
    const stream = new PassThrough()
    await writeTo(stream, Buffer.from('taken'))
    expect(stream.read().toString()).toBe('taken')
    expect(stream.listenerCount('close')).toBe(0)
  })

  it('settles when the stream is destroyed while it buffers the chunk', async () => {
    const stream = new PassThrough({ highWaterMark: 16 })
    const writing = writeTo(stream, Buffer.alloc(64))
    stream.destroy()
    await expect(writing).resolves.toBeUndefined()
  })

  it('settles when the stream was destroyed before', async () => {
    const stream = new PassThrough()
    stream.on('error', () => {})
    stream.destroy()
    await expect(writeTo(stream, Buffer.from('late'))).resolves.toBeUndefined()
  })
})
