"""tools/sass_loops.py on listings written by hand: loops, nesting, what every iteration runs."""

import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))  # the tools folder
import sass_loops

HEADER = '\t.target\tsm_90\n\t.section\t.text.kernel,"ax",@progbits\nkernel:\n.text.kernel:\n'


def listing(*lines):
    """Instructions get addresses; what ends in a colon is a label."""
    text, address = HEADER, 0
    for line in lines:
        if line.endswith(":"):
            text += line + "\n"
        else:
            text += f"        /*{address:04x}*/               {line} ;\n"
            address += 16
    return text


def loops_of(*lines, scores=None):
    return sass_loops.analyse(listing(*lines), scores or {})["kernels"][0]["loops"]


class Loops(unittest.TestCase):
    def test_no_loop_without_a_branch_back(self):
        self.assertEqual(
            loops_of(
                "ISETP.NE.AND P0, PT, R1, RZ, PT", "@P0 BRA `(.L_x_0)", "NOP", ".L_x_0:", "EXIT"
            ),
            [],
        )

    def test_one_block(self):
        (loop,) = loops_of(
            "MOV R1, RZ",
            ".L_x_0:",
            "HMMA.16816.F32.BF16 R4, R8, R12, R4",
            "MUFU.EX2 R4, R4",
            "FFMA R4, R4, R5, R6",
            "@P0 BRA `(.L_x_0)",
            "EXIT",
        )
        self.assertEqual(loop["first_address"], 0x10)
        self.assertEqual(loop["last_address"], 0x40)
        expected = {"tensor": 1, "mufu": 1, "fma": 1, "control": 1}
        self.assertEqual(loop["every_iteration"], expected)
        self.assertEqual(loop["at_most"], expected)

    def test_a_path_that_a_branch_goes_around_is_not_in_every_iteration(self):
        (loop,) = loops_of(
            ".L_x_0:",
            "FADD R1, R1, R2",
            "@P1 BRA `(.L_x_1)",
            "FSEL R1, R1, R3, P2",
            "FSEL R2, R1, R3, P2",
            ".L_x_1:",
            "FMUL R1, R1, R2",
            "@P0 BRA `(.L_x_0)",
            "EXIT",
        )
        self.assertEqual(loop["every_iteration"], {"float": 2, "control": 2})
        self.assertEqual(loop["at_most"], {"float": 4, "control": 2})

    def test_ways_are_told_apart_by_their_arithmetic(self):
        (loop,) = loops_of(
            ".L_x_0:",
            "MUFU.EX2 R4, R4",
            "@P1 BRA `(.L_x_1)",
            "FFMA R4, R4, R5, R6",
            "FFMA R4, R4, R5, R6",
            "@P2 BRA `(.L_x_2)",  # of the same arithmetic: the same way
            "MOV R1, RZ",
            "BRA `(.L_x_2)",
            ".L_x_1:",
            "FFMA R4, R4, R5, R6",
            ".L_x_2:",
            "@P0 BRA `(.L_x_0)",
            "EXIT",
        )
        way = {"tensor": 0, "mufu": 1}
        self.assertEqual(
            loop["ways"],
            [way | {"fma": 1, "other_slots": [3, 3]}, way | {"fma": 2, "other_slots": [5, 7]}],
        )

    def test_one_way_is_not_told(self):
        (loop,) = loops_of(
            ".L_x_0:", "FADD R1, R1, R2", "@P1 BRA `(.L_x_1)", "MOV R2, R1", ".L_x_1:",
            "@P0 BRA `(.L_x_0)", "EXIT",
        )  # fmt: skip
        self.assertEqual(loop["ways"], [])

    def test_a_path_behind_the_kernel_that_comes_back_belongs_to_the_loop(self):
        (loop,) = loops_of(
            ".L_x_0:",
            "FADD R1, R1, R2",
            "@P1 BRA `(.L_x_2)",
            ".L_x_1:",
            "@P0 BRA `(.L_x_0)",
            "EXIT",
            ".L_x_2:",
            "LDS R1, [R2]",
            "BRA `(.L_x_1)",
        )
        self.assertEqual(loop["every_iteration"], {"float": 1, "control": 2})
        self.assertEqual(loop["at_most"], {"float": 1, "shared": 1, "control": 3})

    def test_nested_loops_count_their_own_instructions(self):
        outer, inner = loops_of(
            ".L_x_0:",
            "LDGSTS.E.128 [R1], desc[UR4][R2.64]",
            ".L_x_1:",
            "MUFU.LG2 R1, R1",
            "@P1 BRA `(.L_x_1)",
            "BAR.SYNC.DEFER_BLOCKING 0x0",
            "@!P0 BRA `(.L_x_0)",
            "EXIT",
        )
        self.assertEqual(outer["nested"], [2])
        self.assertEqual(inner["inside"], 1)
        self.assertEqual(outer["at_most"], {"global": 1, "wait": 1, "control": 1})
        self.assertEqual(inner["at_most"], {"mufu": 1, "control": 1})

    def test_an_unconditional_branch_does_not_fall_through(self):
        # What follows the BRA is reached from nowhere and dominates nothing.
        (loop,) = loops_of(
            ".L_x_0:", "FADD R1, R1, R2", "@P0 EXIT", "BRA `(.L_x_0)", "FADD R1, R1, R3", "EXIT"
        )
        self.assertEqual(loop["at_most"], {"float": 1, "control": 2})

    def test_a_branch_with_a_condition_operand_may_fall_through(self):
        (loop,) = loops_of(".L_x_0:", "FADD R1, R1, R2", "BRA.U UP0, `(.L_x_0)", "EXIT")
        self.assertEqual(loop["at_most"], {"float": 1, "control": 1})

    def test_an_indirect_branch_goes_to_its_table(self):
        (loop,) = loops_of(
            ".L_x_0:",
            "FADD R1, R1, R2",
            'BRX R4 -0x10                  (*"BRANCH_TARGETS .L_x_1,.L_x_2"*)',
            ".L_x_1:",
            "BRA `(.L_x_0)",
            ".L_x_2:",
            "EXIT",
        )
        self.assertEqual(loop["at_most"], {"float": 1, "control": 2})

    def test_a_barrier_loop_only_waits(self):
        (loop,) = loops_of(
            ".L_x_0:", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R1], R2", "@!P0 BRA `(.L_x_0)", "EXIT"
        )
        self.assertTrue(sass_loops.only_waits(loop))

    def test_per_score(self):
        (loop,) = loops_of(
            ".L_x_0:",
            "HMMA.16816.F32 R4, R8, R12, R4",
            "MUFU.EX2 R4, R4",
            "FFMA R4, R4, R5, R6",
            "@P0 BRA `(.L_x_0)",
            "EXIT",
            scores={None: 8, 1: 2},
        )
        self.assertEqual(loop["scores_per_thread"], 2)
        self.assertEqual(loop["per_score_every_iteration"]["slots"], 2.0)
        self.assertEqual(loop["per_score_every_iteration"]["other_slots"], 1.0)


class Classes(unittest.TestCase):
    def check(self, text, expected):
        _, (kernel,) = sass_loops.parse_listing(listing(text))
        found = [sass_loops.instruction_class(i) for i in kernel.lines if not isinstance(i, str)]
        self.assertEqual(found, [expected], text)

    def test_each(self):
        for text, expected in (
            ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, !UPT", "tensor"),
            ("@!P0 MUFU.EX2 R1, R2", "mufu"),
            ("FFMA.SAT R1, R2, R3, R4", "fma"),
            ("FMNMX R1, R2, R3, !PT", "float"),
            ("F2FP.BF16.F32.PACK_AB R1, R2, R3", "convert"),
            ("HADD2.F32 R1, -RZ, R2.H0_H0", "convert"),
            ("HADD2 R1, R2, R3", "float"),
            ("IMAD.MOV.U32 R1, RZ, RZ, R2", "move"),
            ("HFMA2.MMA R1, -RZ, RZ, 0, 0", "move"),
            ("HFMA2.MMA R1, R2, R3, R4", "fma"),
            ("IMAD.WIDE R2, R4, 0x4, R6", "integer"),
            ("UIADD3 UR4, UR5, 0x1, URZ", "integer"),
            ("LDSM.16.M88.4 R4, [R8]", "shared"),
            ("SHFL.BFLY PT, R1, R2, 0x1, 0x1f", "exchange"),
            ("UTMALDG.2D [UR8], [UR6], desc[UR10]", "global"),
            ("STL [R1], R2", "local"),
            ("WARPGROUP.DEPBAR.LE gsb0, 0x0", "wait"),
            ("BSYNC B0", "control"),
            ("FROBNICATE R1", "other"),
        ):
            with self.subTest(text):
                self.check(text, expected)

    def test_no_opcode_is_in_two_classes(self):
        listed = [op for ops in sass_loops.CLASSES.values() for op in ops.split()]
        self.assertEqual(len(listed), len(set(listed)))


class Options(unittest.TestCase):
    def test_scores(self):
        self.assertEqual(sass_loops.parse_scores(["32", "2=64"]), {None: 32, 2: 64})

    def test_bad_scores_name_the_option_and_the_value(self):
        for text in ("0", "x", "1=", "=3"):
            with self.subTest(text), self.assertRaises(sass_loops.Problem) as raised:
                sass_loops.parse_scores([text])
            self.assertEqual(raised.exception.code, sass_loops.WRONG_USAGE)
            self.assertIn(f"--scores-per-thread {text}", str(raised.exception))

    def test_no_nvdisasm(self):
        with self.assertRaises(sass_loops.Problem) as raised:
            sass_loops.find_nvdisasm("/nowhere/nvdisasm")
        self.assertEqual(raised.exception.code, sass_loops.MISSING)
        self.assertIn("pip install", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
