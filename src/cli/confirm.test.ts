import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { CraikError } from '../errors.ts'
import { isAgreed } from './confirm.ts'
import type { CliContext } from './context.ts'

function ask() {
  const controller = new AbortController()
  const stdin = Object.assign(new PassThrough(), { isTTY: true })
  const context = { stdin, stderr: new PassThrough().resume(), signal: controller.signal }
  return { controller, stdin, answer: isAgreed(context as unknown as CliContext, 'delete it? [y/N] ') }
}

describe('a question', () => {
  it.each([
    ['y\n', true],
    ['YES\n', true],
    ['n\n', false],
    ['\n', false],
  ])('takes %j as %s', async (typed, agreed) => {
    const { stdin, answer } = ask()
    stdin.write(typed)
    expect(await answer).toBe(agreed)
  })

  it('takes the end of the input as no', async () => {
    const { stdin, answer } = ask()
    stdin.end()
    expect(await answer).toBe(false)
  })

  it('ends with the reason of a signal', async () => {
    const { controller, answer } = ask()
    const reason = new CraikError('interrupted', 'interrupted')
    controller.abort(reason)
    await expect(answer).rejects.toBe(reason)
  })
})
