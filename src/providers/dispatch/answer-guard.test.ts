import { expect, it } from 'vitest'
import { AnswerGuard } from './answer-guard.ts'

const KEY = '3f9a1c7be2d84056a1b2c3d4e5f60718'
const MASKED = 'x'.repeat(KEY.length)

function pass(guard: AnswerGuard, pieces: readonly string[]): string {
  return pieces.map((piece) => guard.text(piece)).join('') + guard.rest()
}

it('masks the key in an answer, also where it comes in pieces', () => {
  for (let at = 0; at <= KEY.length; at++) {
    const guard = new AnswerGuard(Buffer.from(KEY))
    expect(pass(guard, ['it is ', KEY.slice(0, at), KEY.slice(at), ', no?'])).toBe(`it is ${MASKED}, no?`)
  }
})

it('passes every part of the key', () => {
  for (let length = 1; length < KEY.length; length++) {
    const text = `${KEY.slice(0, length)} ${KEY.slice(-length)}`
    expect(pass(new AnswerGuard(Buffer.from(KEY)), [text])).toBe(text)
  }
})

it('passes each word on as soon as it is over', () => {
  const guard = new AnswerGuard(Buffer.from(KEY))
  expect(guard.text('hello wor')).toBe('hello ')
  expect(guard.text('ld\n')).toBe('world\n')
})

it('masks the key in a tool call, which stays one', () => {
  const call = { id: 'call_1', name: 'run', arguments: { line: `echo "${KEY}"`, [KEY]: [KEY.slice(1)] } }
  expect(new AnswerGuard(Buffer.from(KEY)).call(call)).toEqual({
    ...call,
    arguments: { line: `echo "${MASKED}"`, [MASKED]: [KEY.slice(1)] },
  })
  expect(new AnswerGuard(undefined).call(call)).toBe(call)
})
