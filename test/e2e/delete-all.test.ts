/**
 * Deleting all sandboxes or all snapshots: when Craik asks first, and what it does if it cannot ask. Both nouns have
 * the same rules.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { TestHome } from '../craik.ts'
import { Terminal } from './interactive-user.ts'

let home: TestHome

beforeAll(async () => {
  home = new TestHome()
  for (const name of ['one', 'two']) {
    await home.json(['sandbox', 'create', '--isolation', 'none', '--name', name])
    await home.json(['sandbox', 'snapshot', name, '--name', `${name}-before`])
  }
})
afterAll(async () => {
  await home.run(['sandbox', 'delete', '--all', '--yes'])
  await home.run(['supervisor', 'stop'])
  home[Symbol.dispose]()
})

describe.each([
  { noun: 'snapshot', plural: 'snapshots', named: 'two-before, one-before permanently' },
  { noun: 'sandbox', plural: 'sandboxes', named: 'two, one, with everything in them' },
])('craik $noun delete', ({ noun, plural, named }) => {
  const names = async () => (await home.json<{ name: string }[]>([noun, 'list'])).map(({ name }) => name)

  it('requires names or --all, and not both', async () => {
    for (const typed of [[], ['--yes'], ['x', '--all']]) {
      const { code, stderr } = await home.run([noun, 'delete', ...typed])
      expect([code, stderr]).toEqual([ERRORS.usage.exit, expect.stringContaining(`craik ${noun} list`)])
    }
  })

  it('with --all deletes nothing when it cannot ask, and prints the command to type', async () => {
    const { code, stdout, stderr } = await home.run([noun, 'delete', '--all'])
    expect([code, stdout]).toEqual([ERRORS.usage.exit, ''])
    expect(stderr).toContain(`2 ${plural} would be deleted`)
    expect(stderr).toContain(`craik ${noun} delete --all --yes`)
    expect(await names()).toHaveLength(2)
  })

  it.each([
    ['no', 'n\r'],
    ['nothing', '\r'],
    ['Ctrl-D', '\u0004'],
    ['Ctrl-C', '\u0003'],
  ])('asks at a terminal, and deletes nothing when the answer is %s', async (_, typed) => {
    using terminal = new Terminal(home, [noun, 'delete', '--all'], 120, 30)
    await terminal.says(`delete ${named}? [y/N]`)
    terminal.typeText(typed)
    expect(await terminal.exited).toBe(ERRORS.interrupted.exit)
    expect(terminal.screen).toContain('nothing was deleted')
    expect(await names()).toHaveLength(2)
  })

  it('does not ask about given names, and continues after an unknown name', async () => {
    const [first] = await names()
    const { code, stdout, stderr } = await home.run([noun, 'delete', 'nonesuch', first!])
    expect(code).toBe(ERRORS.not_found.exit)
    expect(JSON.parse(stdout)).toMatchObject([{ name: first, deleted: true }])
    expect(stderr).toContain('nonesuch')
    expect(await names()).toHaveLength(1)
  })

  it('deletes all when the answer is yes, and asks nothing when all are deleted', async () => {
    using terminal = new Terminal(home, [noun, 'delete', '--all'], 120, 30)
    await terminal.says('[y/N]')
    terminal.typeText('y\r')
    expect(await terminal.exited).toBe(0)
    expect(await names()).toEqual([])
    expect(await home.json([noun, 'delete', '--all'])).toEqual([])
  })
})
