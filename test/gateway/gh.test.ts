/** The real GitHub CLI in a real sandbox, with a login that stays on the host. */
import { beforeAll, describe, expect, it } from 'vitest'
import { ROOT_IS_NEEDED } from '../sandbox-home.ts'
import type { GhReport } from './gh-world.fixture.ts'
import { inWorld } from './world.ts'

describe.skipIf(ROOT_IS_NEEDED !== undefined)(ROOT_IS_NEEDED ?? 'gh inside a sandbox', () => {
  let report: GhReport
  beforeAll(async () => {
    report = await inWorld('gh-world.fixture.ts')
  })

  it('reads, writes and clones without setup', () => {
    expect(report.tools).toMatchObject({
      'who am I': 'ada',
      'a repository by REST': 'main',
      'repo view': 'ada/engine',
      'pr list': '7 count the teeth',
      'pr list, as a table': expect.stringMatching(/^7\tcount the teeth\tteeth\tOPEN\t/),
      'issue create': 'https://github.com/ada/engine/issues/8',
      'repo clone': 'first',
    })
    expect(new Set(report.asked)).toEqual(
      new Set([
        'api.github.com GET /user',
        'api.github.com GET /repos/ada/engine',
        'api.github.com query RepositoryInfo',
        'api.github.com query PullRequestList',
        'api.github.com mutation IssueCreate',
        'github.com git',
      ]),
    )
  })

  it('reaches GitHub with the real token only, which is nowhere in the sandbox', () => {
    expect(report.isOnlyToken).toBe(true)
    expect(report.tools['auth token']).toBe('another')
    expect(report.leaks).toEqual([])
  })

  it('is refused with a token that is not the placeholder of its sandbox, before anything is sent', () => {
    expect(report.tools['a token of somebody else']).toMatch(/HTTP 401\nended 1$/)
    expect(report.asked.filter((line) => line.endsWith('GET /user'))).toHaveLength(1)
  })

  it('has a receipt for each request, with its operation', () => {
    const ended = report.receipts.filter((line) => /^(?:api|git_)/.test(line) && !line.endsWith(' '))
    expect(ended).toHaveLength(report.asked.length)
    expect(new Set(ended)).toEqual(new Set(['api github/api passed', 'git_read github/ada/engine passed']))
    expect(report.verified).toBe(0)
  })
})
