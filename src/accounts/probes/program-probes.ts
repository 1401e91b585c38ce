/** The logins that a program refreshes itself, and that Craik can refresh for it. */
import type { Probe } from '../probe-result.ts'
import { claudeCodeProbe } from './claude-code.ts'
import { codexProbe } from './codex.ts'
import { geminiProbe } from './gemini.ts'
import { kimiProbe } from './kimi.ts'

export const PROGRAM_PROBES: readonly Probe[] = [claudeCodeProbe, codexProbe, geminiProbe, kimiProbe]
