from setuptools import setup

setup(
    name="omnidc_ros",
    version="0.1.0",
    packages=["omnidc_ros"],
    data_files=[
        ("share/ament_index/resource_index/packages", ["resource/omnidc_ros"]),
        ("share/omnidc_ros", ["package.xml"]),
        ("share/omnidc_ros/launch", ["launch/complete.launch.py"]),
    ],
    install_requires=["setuptools", "omnidc"],
    license="Apache-2.0",
    entry_points={"console_scripts": ["complete = omnidc_ros.node:main"]},
)
