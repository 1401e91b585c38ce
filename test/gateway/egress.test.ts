/** Web requests from a real sandbox: attacks on egress, and common tools. */
import { beforeAll, describe, expect, it } from 'vitest'
import { FINE } from '../egress/attacks.ts'
import { ROOT_IS_NEEDED } from '../sandbox-home.ts'
import type { EgressReport } from './egress-world.fixture.ts'
import { inWorld } from './world.ts'

describe.skipIf(ROOT_IS_NEEDED !== undefined)(ROOT_IS_NEEDED ?? 'from inside a real sandbox', () => {
  let report: EgressReport
  beforeAll(async () => {
    report = await inWorld('egress-world.fixture.ts')
  })

  it('every attack fails, and no connection reaches a forbidden address', () => {
    expect(report.attacks.length).toBeGreaterThan(60)
    expect(report.attacks.filter(({ isFoughtOff }) => !isFoughtOff)).toEqual([])
    expect(report.trapped).toEqual([])
    expect(report.seenOfAttacks.filter((line) => !FINE.test(line))).toEqual([])
    expect(report.asked).not.toContain('forbidden.example')
  })

  it('curl, npm, pip and git work without setup, as far as was granted', () => {
    expect(report.tools).toMatchObject({
      curl: 'hello',
      'curl plain': 'hello',
      'curl, forbidden': expect.stringMatching(/refused$/),
      'curl, redirected': expect.stringMatching(/^403/),
      'curl, rebound': expect.stringMatching(/^(?:200 )?(?:403 ?)+$/),
      'git through the proxy': 'first',
    })
    // Not every host has these where a sandbox sees them.
    expect(['none', '1.3.0']).toContain(report.tools.npm)
    expect(['none', 'leftpad (1.0)']).toContain(report.tools.pip)
  })

  it('git and gh read and write with the login of the host, which only its own server receives', () => {
    expect(report.tools).toMatchObject({
      'git with the login': 'first',
      'git push': 'pushed',
      'git by ssh’s name': 'from-inside',
      'gh at an enterprise’s own': 'ada',
      'token inside': '0',
    })
    expect(report.tokenSeenBy).toEqual(['ghe.example'])
    expect(report.leaks).toEqual([])
  })

  it('everything has receipts, and every decision replays with the same result', () => {
    expect(report.verified).toBe(0)
    expect(report.receipts.some((line) => line.startsWith('denial connect egress.no_rule'))).toBe(true)
  })
})
