/** The logins that a program refreshes, and that Craik refreshes in its place. */
import type { Probe } from '../probe-result.ts'
import { claudeCodeProbe } from './claude-code.ts'
import { codexProbe } from './codex.ts'
import { geminiProbe } from './gemini.ts'
import { kimiProbe } from './kimi.ts'

export const PROGRAM_PROBES: readonly Probe[] = [claudeCodeProbe, codexProbe, geminiProbe, kimiProbe]
