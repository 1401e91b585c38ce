import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { collectAnswer, sh, TestHost, until } from '../sidecar.fixture.ts'

let host: TestHost
beforeAll(async () => {
  host = await TestHost.start()
})
afterAll(async () => {
  await host[Symbol.asyncDispose]()
})

const cat = () => host.start({ kind: 'exec', argv: ['cat'], stdin: true })
const offsetOf = async (id: string): Promise<number> => {
  const { value }: { value: { inputOffset: number } } = await host.json('GET', `/jobs/${id}`)
  return value.inputOffset
}

/** Opens an input request whose body stays open. */
function open(id: string, query: string) {
  const stream = host.request('POST', `/jobs/${id}/input?${query}`)
  const answer = collectAnswer(stream).then(({ status, body }) => ({
    status,
    ...JSON.parse(body.toString()),
  }))
  return { write: (text: string) => stream.write(text), end: (text = '') => stream.end(text), answer }
}

const ask = async (id: string, query: string, text = '') => {
  const path = `/jobs/${id}/input?${query}`
  const answer: { status: number; value: { offset: number } } = await host.json(
    'POST',
    path,
    Buffer.from(text),
  )
  return { status: answer.status, ...answer.value }
}

describe('the turn to send input to a job', () => {
  it('is taken at once from a silent sender, which gets the offset that arrived', async () => {
    const id = await cat()
    const first = open(id, 'offset=0&end=1&turn=one')
    first.write('one ')
    await until(async () => (await offsetOf(id)) === 4)
    expect(await ask(id, 'offset=0&turn=two&take=1')).toEqual({ status: 200, offset: 4 })
    expect(await first.answer).toMatchObject({ status: 412, code: 'changed', offset: 4 })
    expect(await ask(id, 'offset=4&end=1&turn=two', 'two')).toEqual({ status: 200, offset: 7 })
    expect((await host.output(id)).stdout).toBe('one two')
  })

  it('is taken from a sender that has sent nothing yet', async () => {
    const id = await cat()
    const first = open(id, 'offset=0&end=1&turn=one')
    expect(await ask(id, 'offset=0&turn=two&take=1')).toEqual({ status: 200, offset: 0 })
    expect(await first.answer).toMatchObject({ status: 412, code: 'changed', offset: 0 })
    await host.ask('DELETE', `/jobs/${id}`)
  })

  it('does not return to a sender that lost it, whatever it sends', async () => {
    const id = await cat()
    expect(await ask(id, 'offset=0&turn=one', 'one ')).toEqual({ status: 200, offset: 4 })
    const second = open(id, 'offset=4&end=1&turn=two&take=1')
    second.write('two ')
    await until(async () => (await offsetOf(id)) === 8)
    for (const query of ['offset=0&turn=one', 'offset=8&turn=one', 'offset=8&end=1&turn=one&take=0'])
      expect(await ask(id, query, 'lost')).toMatchObject({ status: 412, code: 'changed' })
    second.end('more')
    expect(await second.answer).toEqual({ status: 200, offset: 12 })
    expect((await host.output(id)).stdout).toBe('one two more')
  })

  it('stays with its sender when the connection is lost', async () => {
    const id = await cat()
    const first = host.request('POST', `/jobs/${id}/input?offset=0&end=1&turn=one`)
    first.write('one ')
    await until(async () => (await offsetOf(id)) === 4)
    host.session.destroy()
    host.connect()
    expect(await ask(id, 'offset=0&turn=two')).toMatchObject({ status: 412 })
    expect(await ask(id, 'offset=0&turn=one')).toEqual({ status: 200, offset: 4 })
    expect(await ask(id, 'offset=4&end=1&turn=one', 'more')).toEqual({ status: 200, offset: 8 })
    expect((await host.output(id)).stdout).toBe('one more')
  })

  it('is taken by each request without a turn id, and is not returned', async () => {
    const id = await cat()
    const first = open(id, 'offset=0&end=1&turn=one')
    expect(await ask(id, 'offset=0', 'new ')).toEqual({ status: 200, offset: 4 })
    expect((await first.answer).status).toBe(412)
    expect(await ask(id, 'offset=4&turn=one', 'lost')).toMatchObject({ status: 412 })
    expect(await ask(id, 'offset=4&end=1', 'newer')).toEqual({ status: 200, offset: 9 })
    expect((await host.output(id)).stdout).toBe('new newer')
  })

  it('is taken from a sender that waits for a program that does not read', async () => {
    const id = await host.start(sh('while [ ! -e go ]; do sleep 0.05; done; wc -c', { stdin: true }))
    const first = host.request('POST', `/jobs/${id}/input?offset=0&end=1&turn=one`)
    const reported = collectAnswer(first)
    first.write(Buffer.alloc(4 * 1024 * 1024))
    await until(async () => (await offsetOf(id)) > 0)
    const { offset } = await ask(id, 'offset=0&turn=two&take=1')
    expect((await reported).status).toBe(412)
    writeFileSync(join(host.workspace, 'go'), '')
    expect(await ask(id, `offset=${offset}&end=1&turn=two`, 'end')).toEqual({
      status: 200,
      offset: offset + 3,
    })
    expect((await host.output(id)).stdout.trim()).toBe(String(offset + 3))
  })

  it('changes between any two bytes, and no byte is lost, doubled or out of order', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(3), { minLength: 2, maxLength: 12 }), async (lengths) => {
        const id = await cat()
        let before: ReturnType<typeof open> | undefined
        let sentBefore = ''
        let expected = ''
        for (const [index, parts] of lengths.entries()) {
          // The test does not wait for the bytes that were sent before. They can be anywhere on their way when the next
          // sender takes over.
          const { offset } = await ask(id, `offset=0&turn=t${index}&take=1`)
          expect(offset).toBeGreaterThanOrEqual(expected.length)
          expected += sentBefore.slice(0, offset - expected.length)
          if (before) expect(await before.answer).toMatchObject({ status: 412, offset })
          before = open(id, `offset=${offset}&end=1&turn=t${index}`)
          sentBefore = ''
          for (let part = 0; part < parts; part++) {
            const text = `${index}.${part};`
            before.write(text)
            sentBefore += text
          }
        }
        before!.end('end')
        expect(await before!.answer).toMatchObject({ status: 200 })
        expect((await host.output(id)).stdout).toBe(`${expected}${sentBefore}end`)
      }),
      { numRuns: 20 },
    )
  })

  it('changes, on one connection, only after everything that was sent before', async () => {
    const id = await cat()
    const first = open(id, 'offset=0&turn=one')
    first.write('all of it')
    // This request follows directly: no response arrived in between.
    expect(await ask(id, 'offset=0&turn=two&take=1')).toEqual({ status: 200, offset: 9 })
    expect(await first.answer).toMatchObject({ status: 412, offset: 9 })
    await host.ask('DELETE', `/jobs/${id}`)
  })

  it('refuses an id that is empty, too long, or contains a space', async () => {
    const id = await cat()
    for (const turn of ['', 'a b', 'x'.repeat(65)])
      expect(await ask(id, `offset=0&turn=${encodeURIComponent(turn)}`)).toMatchObject({ status: 400 })
    await host.ask('DELETE', `/jobs/${id}`)
  })
})
